// GET /health, /, /metrics, /props, /debug/pages: how the server is.
#include <algorithm>

#include "server/epochs.h"
#include "server/reply_json.h"
#include "server/routes.h"

namespace quire::server {
namespace {

using formats::Json;

constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

Gauge gauge(std::string_view name, std::string_view help, int64_t value,
            std::string_view alias = "") {
  return {.name = name, .help = help, .value = static_cast<double>(value), .alias = alias};
}

Gauge counter(std::string_view name, std::string_view help, int64_t value,
              std::string_view alias = "") {
  Gauge out = gauge(name, help, value, alias);
  out.is_counter = true;
  return out;
}

void add_loop_gauges(std::vector<Gauge>& gauges, const Backend& backend) {
  const engine::LoopStats stats = backend.loop.stats();
  const auto& pages = stats.pages;
  const auto& kv = stats.kv;
  gauges.push_back(gauge("num_requests_running", "Requests that are computed on", stats.running,
                         "num_requests_running"));
  gauges.push_back(gauge("num_requests_waiting", "Requests that wait for their turn", stats.waiting,
                         "num_requests_waiting"));
  gauges.push_back({.name = "kv_cache_usage_perc",
                    .help = "Share of the memory for pages that sequences hold, 0 to 1",
                    .value = share(pages.sequence_bytes, kv.bytes_budget),
                    .alias = "kv_cache_usage_perc"});
  gauges.push_back({.name = "cache_config_info",
                    .help = "How pages are cut",
                    .value = 1.0,
                    .alias = "cache_config_info",
                    .labels = "block_size=\"" + std::to_string(backend.page_tokens) +
                              "\",num_gpu_blocks=\"0\",num_cpu_blocks=\"" +
                              std::to_string(pages.total()) + "\""});
  gauges.push_back(counter("num_preemptions_total", "Requests that made room for others",
                           stats.counters.preemptions, "num_preemptions_total"));
  gauges.push_back(counter("spec_decode_num_draft_tokens_total", "Guesses that were verified",
                           stats.counters.drafted_tokens, "spec_decode_num_draft_tokens_total"));
  gauges.push_back(counter("spec_decode_num_accepted_tokens_total", "Of them those that were right",
                           stats.counters.accepted_tokens,
                           "spec_decode_num_accepted_tokens_total"));
  gauges.push_back(
      gauge("pages_held_by_sequences", "Pages of running requests", pages.held_by_sequences));
  gauges.push_back(gauge("pages_held_by_tree", "Pages kept for later prompts", pages.held_by_tree));
  gauges.push_back(gauge("pages_free", "Pages that could be handed out", pages.free));
  gauges.push_back(gauge("kv_bytes_held", "Memory of all pages", kv.bytes_held));
  gauges.push_back(gauge("kv_bytes_budget", "What they may take", kv.bytes_budget));
  gauges.push_back(counter("pages_evicted_total", "Pages that made room", kv.prefix_evicted));
}

void add_http_gauges(std::vector<Gauge>& gauges, const HttpCounters& http) {
  const auto read = [](const std::atomic<int64_t>& value) {
    return value.load(std::memory_order_relaxed);
  };
  gauges.push_back(gauge("http_connections", "Connections that are open", read(http.connections)));
  gauges.push_back(counter("http_connections_refused_total", "Connections beyond the limit",
                           read(http.refused)));
  gauges.push_back(counter("http_bad_requests_total", "Requests that broke HTTP or its limits",
                           read(http.bad_requests)));
  gauges.push_back(counter("http_stalled_readers_total", "Readers that were cut off",
                           read(http.stalled_readers)));
  gauges.push_back(counter("http_disconnects_total", "Clients that left before their answer ended",
                           read(http.disconnects)));
}

void add_store_gauges(std::vector<Gauge>& gauges, const Serving& serving) {
  const StoreThread* store = serving.store();
  const Epochs* epochs = serving.epochs();
  if (store == nullptr || epochs == nullptr) return;
  const EpochCounters& counters = epochs->counters();
  gauges.push_back(counter("store_failures_total", "Questions that the store's file failed at",
                           store->failures()));
  gauges.push_back(gauge("epochs_under_way", "Whether a conversation's shorter view is being made",
                         epochs->idle() ? 0 : 1));
  gauges.push_back(counter("epochs_switched_total",
                           "Stored conversations that went over to a shorter view",
                           counters.switched.load()));
  gauges.push_back(counter("epochs_cancelled_total",
                           "Views given up because the conversation went on or the server stopped",
                           counters.cancelled.load()));
  gauges.push_back(counter("epochs_impossible_total",
                           "Long conversations that no policy could shorten",
                           counters.impossible.load()));
  gauges.push_back(counter("epoch_tokens_read_total", "Tokens read in the background for views",
                           counters.tokens_read.load()));
}

Json sampling_json(const engine::SamplingOptions& s) {
  Json json;
  json.set("temperature", s.temperature);
  json.set("top_k", int64_t{s.top_k});
  json.set("top_p", s.top_p);
  json.set("min_p", s.min_p);
  json.set("repeat_penalty", s.repeat_penalty);
  json.set("presence_penalty", s.presence_penalty);
  json.set("frequency_penalty", s.frequency_penalty);
  json.set("repeat_last_n", int64_t{s.penalty_window});
  json.set("n_predict", int64_t{-1});
  return json;
}

}  // namespace

void handle_health(const Call& call) {
  const Serving& serving = call.serving;
  const bool ready = serving.loaded() && !serving.stopping();
  Json json;
  json.set("status", ready ? "ok" : serving.stopping() ? "stopping" : "loading");
  HttpResponse response{.status = ready ? 200 : 503, .body = json.dump()};
  if (!ready) response.headers.emplace_back("Retry-After", "1");
  call.exchange->respond(std::move(response));
}

void handle_root(const Call& call) {
  call.exchange->respond({.content_type = "text/plain", .body = "Quire is running\n"});
}

void handle_metrics(const Call& call) {
  std::vector<Gauge> gauges;
  if (const Backend* backend = call.serving.backend()) add_loop_gauges(gauges, *backend);
  add_store_gauges(gauges, call.serving);
  if (const HttpCounters* http = call.serving.http_counters()) add_http_gauges(gauges, *http);
  call.exchange->respond({.content_type = std::string(kPrometheusType),
                          .body = call.serving.metrics().render(call.serving.model_id(), gauges)});
}

void handle_props(const Call& call) {
  const Backend& backend = *call.serving.backend();
  const context::ChatTemplate* chat_template = backend.model.chat_template();
  Json settings;
  settings.set("n_ctx", backend.engine.window().tokens);
  settings.set("params", sampling_json(sampling_defaults(backend.model)));
  Json json;
  json.set("default_generation_settings", std::move(settings));
  json.set("total_slots", int64_t{backend.max_sequences});
  json.set("model_alias", call.serving.model_id());
  json.set("n_ctx_train", int64_t{backend.model.config().context});
  const auto& source = backend.model.tokenizer().chat_template();
  json.set("chat_template", source ? Json(*source) : Json());
  if (chat_template != nullptr) {
    Json caps;
    caps.set("supports_system_role", chat_template->traits().system_role);
    caps.set("supports_tools", chat_template->traits().tools);
    caps.set("supports_tool_calls", chat_template->traits().tool_calls);
    json.set("chat_template_caps", std::move(caps));
  }
  json.set("build_info", "quire");
  reply(call, json);
}

void handle_debug_pages(const Call& call) {
  const Backend& backend = *call.serving.backend();
  const engine::LoopStats stats = backend.loop.stats();
  const auto& pages = stats.pages;
  Json bytes;
  bytes.set("budget", stats.kv.bytes_budget);
  bytes.set("held", stats.kv.bytes_held);
  bytes.set("held_by_sequences", pages.sequence_bytes);
  bytes.set("held_by_tree", pages.tree_bytes);
  bytes.set("pinned", pages.pinned_bytes);
  bytes.set("spilled", stats.kv.bytes_spilled);
  bytes.set("peak", stats.kv.bytes_peak);
  Json json;
  json.set("page_tokens", int64_t{backend.page_tokens});
  json.set("total", pages.total());
  json.set("free", pages.free);
  json.set("held_by_sequences", pages.held_by_sequences);
  json.set("held_by_tree", pages.held_by_tree);
  json.set("pinned", pages.pinned);
  json.set("spilled", pages.spilled);
  json.set("bytes", std::move(bytes));
  reply(call, json);
}

}  // namespace quire::server
