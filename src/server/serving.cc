#include "server/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/hash.h"

namespace quire::server {
namespace {

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Digest keyed(const std::string& secret, uint64_t number) {
  DigestBuilder digest;
  digest.add(std::string_view(secret));
  digest.add_number(number);
  return digest.finish();
}

}  // namespace

Serving::Serving(ServingOptions options, ApiKeys keys, EventLog& log)
    : options_(std::move(options)),
      keys_(std::move(keys)),
      log_(log),
      start_time_(seconds_now()),
      secret_(random_secret()) {}

void Serving::set_backend(const Backend& backend) {
  backend_.emplace(backend);
  end_tokens_ = all_end_tokens(backend.model);
  loaded_.store(true, std::memory_order_release);
}

bool Serving::answers_to(std::string_view model) const {
  constexpr std::string_view kLatest = ":latest";  // how Ollama's clients end every name
  if (model.ends_with(kLatest)) model.remove_suffix(kLatest.size());
  return options_.any_model || std::ranges::count(options_.names, model) > 0;
}

GenerationDefaults Serving::defaults() {
  return {.sampling = sampling_defaults(backend_->model),
          .vocab = backend_->model.tokenizer().vocab_size(),
          .end_tokens = end_tokens_,
          .max_output = options_.max_output,
          .seed = keyed(secret_, next_id_.fetch_add(1)).low};
}

std::string Serving::new_id(std::string_view prefix) {
  const Digest id = keyed(secret_, next_id_.fetch_add(1));
  return fmt::format("{}{:016x}{:08x}", prefix, id.high, id.low & 0xffffffffu);
}

}  // namespace quire::server
