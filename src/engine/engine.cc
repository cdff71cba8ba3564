#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/identity.h"
#include "engine/kv_plan.h"

namespace quire::engine {
namespace {

// Logits of a chunk whose every row is wanted may take this much at once.
constexpr int64_t kLogitsBytes = int64_t{32} << 20;

int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

/// Why a prompt could not use more of a sequence than their common beginning.
kv::PrefixMiss explain(std::span<const TokenId> have, std::span<const TokenId> prompt,
                       int64_t common) {
  kv::PrefixMiss miss{.token_index = common,
                      .cost_tokens = static_cast<int64_t>(prompt.size()) - common};
  const auto at = static_cast<size_t>(common);
  if (at >= have.size()) return miss;
  miss.reason = kv::MissReason::kTokenDiffers;
  miss.expected = have[at];
  miss.got = prompt[at];
  return miss;
}

}  // namespace

Engine::Engine(const Model& model, EngineOptions options, Window window,
               const kernels::KernelSet* kernels)
    : model_(model),
      options_(std::move(options)),
      window_(window),
      kernels_(kernels),
      threads_(options_.threads) {}

Result<std::unique_ptr<Engine>> Engine::create(const Model& model, const EngineOptions& options) {
  if (options.threads < 1 || options.prefill_chunk < 1) {
    return Error{ErrorCode::kUsage, "--threads and --prefill-chunk are at least 1"};
  }
  const model::ModelConfig& config = model.config();
  QUIRE_TRY(const kernels::KernelSet* kernels, kernels::select_kernels(options.isa));
  QUIRE_TRY(kv::KvGeometry geometry, kv_geometry(config, options.kv, options.cache.sliding));
  const int64_t chunk = std::min<int64_t>(options.prefill_chunk, config.context);
  const int64_t most = std::min<int64_t>(config.context, kv::kMaxTokens);
  int64_t spill_bytes = 0;
  if (options.cache.offload_bytes) {
    QUIRE_CHECK(options.open_spill_file && options.spill_room, "offloaded, but nowhere to");
    QUIRE_TRY(spill_bytes, options.spill_room());
  }
  const int64_t memory =
      std::min(options.memory_bytes, options.cache.offload_bytes.value_or(INT64_MAX));
  const int64_t affordable = options.cache.offload_bytes
                                 ? offloadable_tokens(geometry, {memory, spill_bytes}, most, chunk)
                                 : affordable_tokens(geometry, memory, most, chunk);
  QUIRE_TRY(const Window window,
            resolve_window(config.context, options.context_tokens, affordable));

  auto engine = std::unique_ptr<Engine>(new Engine(model, options, window, kernels));
  std::vector<model::KvPlace> places;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const kv::LayerPlace place = geometry.place(layer);
    places.push_back({place.group, place.index});
  }
  engine->key_ = identity_key(model, options);
  kv::KvStoreOptions store{.budget_bytes = memory};
  store.prefix.budget_bytes = options.prefix_bytes.value_or(memory / 2);
  if (options.cache.offload_bytes) {
    store.spill = kv::SpillOptions{.open_file = options.open_spill_file, .max_bytes = spill_bytes};
  }
  if (options.cache.kind == CacheKind::kStatic) {
    store.static_reservation = kv::StaticReservation{
        .tokens = window.tokens, .sequences = options.static_sequences, .chunk_tokens = chunk};
  }
  QUIRE_TRY(engine->store_, kv::KvStore::create(std::move(geometry), store));
  const model::TransformerOptions transformer{
      .max_rows = static_cast<int32_t>(chunk),
      .window_tokens = options.context_tokens.value_or(config.context),
      .policy = options.activations,
      .profile = options.profile};
  QUIRE_TRY(engine->transformer_, model::Transformer::create({.config = &model.config(),
                                                              .weights = &model.weights(),
                                                              .kernels = kernels,
                                                              .threads = &engine->threads_,
                                                              .places = std::move(places)},
                                                             transformer));
  return engine;
}

MemoryReport Engine::memory() const {
  return {.weights = model_.weights_bytes(),
          .kv = store_->stats().bytes_held,
          .activation = transformer_->scratch_bytes() +
                        static_cast<int64_t>(logits_.capacity() * sizeof(float))};
}

SequenceCache Engine::cached(const Sequence& sequence) const {
  const kv::KvSequence& held = sequence.cached_;
  SequenceCache counted{.tokens = store_->length(held),
                        .bytes_used = store_->used_bytes(held),
                        .bytes_held = store_->held_bytes(held)};
  const auto& groups = store_->geometry().groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    counted.groups.push_back(
        count_pages(groups[g], store_->table(held, static_cast<int32_t>(g)), counted.tokens));
    counted.bytes_spilled += counted.groups.back().bytes_spilled;
  }
  return counted;
}

Sequence Engine::create_sequence(CacheScope scope) {
  Sequence sequence;
  sequence.scope_ = std::move(scope);
  sequence.cached_ = store_->create_sequence();
  return sequence;
}

Sequence Engine::fork(const Sequence& sequence) {
  Sequence twin;
  twin.scope_ = sequence.scope_;
  twin.tokens_ = sequence.tokens_;
  twin.cached_ = store_->fork(sequence.cached_);
  return twin;
}

int32_t Engine::most_sequences() const {
  if (options_.cache.offload_bytes) return 1;
  if (options_.cache.kind == CacheKind::kStatic) return options_.static_sequences;
  return INT32_MAX;
}

bool Engine::has_windows() const {
  return std::ranges::any_of(store_->geometry().groups(),
                             [](const kv::LayerGroup& group) { return group.is_window(); });
}

bool Engine::shares_prefixes() const {
  return !options_.cache.recomputes() && options_.prefix_reuse == PrefixReuse::kOn;
}

bool Engine::shares_whole_pages() const {
  return !kv::is_lossless(options_.kv) || options_.cache.offload_bytes.has_value();
}

bool Engine::may_share(const Sequence& sequence) const {
  return shares_prefixes() && sequence.scope_.reuse == PrefixReuse::kOn;
}

kv::IdentityKey Engine::key_of(const Sequence& sequence) const {
  kv::IdentityKey key = key_;
  key.tenant = sequence.scope_.tenant;
  key.salt = sequence.scope_.salt;
  return key;
}

Reuse Engine::resume(Sequence& sequence, std::span<const TokenId> prompt) {
  QUIRE_CHECK(!prompt.empty(), "a prompt has tokens");
  const auto last = static_cast<int64_t>(prompt.size()) - 1;
  const int64_t own = std::min(common_tokens(sequence.tokens(), prompt), last);
  Reuse reuse;
  if (own < last) reuse.miss = explain(sequence.tokens(), prompt, own);
  if (options_.cache.recomputes()) {
    sequence.tokens_.resize(static_cast<size_t>(own));
    reuse.miss = kv::PrefixMiss{.cost_tokens = last + 1};
    return reuse;
  }
  kv::PrefixMatch known;
  if (may_share(sequence)) known = store_->match(key_of(sequence), prompt);
  // The sequence's own pages first: they need no copy. Windows may have left them behind, and a
  // page that is sealed can only be kept as a whole.
  for (const int64_t kept : {own, own - own % kv::kPageTokens}) {
    if (kept < known.tokens || !store_->truncate(sequence.cached_, kept).ok()) continue;
    sequence.tokens_.resize(static_cast<size_t>(kept));
    reuse.cached_tokens = kept;
    if (reuse.miss) reuse.miss->cost_tokens = last + 1 - kept;
    if (kept == known.tokens && known.miss) reuse.miss = known.miss;
    return reuse;
  }
  sequence.cached_ = store_->adopt(known);
  sequence.tokens_.assign(prompt.begin(), prompt.begin() + known.tokens);
  return {known.tokens, known.miss};
}

void Engine::publish(const Sequence& sequence, PublishPoint point) {
  if (!may_share(sequence) || sequence.tokens_.empty()) return;
  const bool shares_tail = point == PublishPoint::kEnds || has_windows();
  store_->publish(key_of(sequence), sequence.cached_, sequence.tokens_,
                  shares_tail ? kv::PublishTail::kShare : kv::PublishTail::kLeave);
}

Result<void> Engine::truncate(Sequence& sequence, int64_t length) {
  QUIRE_CHECK(length >= 0 && length <= sequence.length(), "a sequence cannot be truncated to more");
  if (options_.cache.recomputes() || store_->truncate(sequence.cached_, length).ok()) {
    sequence.tokens_.resize(static_cast<size_t>(length));
    return {};
  }
  // The page at `length` is sealed, or window pages that a query there sees are gone.
  const int64_t page_start = length - length % kv::kPageTokens;
  if (store_->truncate(sequence.cached_, page_start).ok()) {
    return reread_from(sequence, page_start, length);
  }
  sequence.tokens_.resize(static_cast<size_t>(length));
  return recompute(sequence);
}

/// Reads tokens [start, length) again into a cache that ends at `start`.
Result<void> Engine::reread_from(Sequence& sequence, int64_t start, int64_t length) {
  const std::vector<TokenId> again(sequence.tokens_.begin() + start,
                                   sequence.tokens_.begin() + length);
  sequence.tokens_.resize(static_cast<size_t>(start));
  QUIRE_TRY_VOID(append(sequence, again));
  return {};
}

int64_t Engine::logit_rows(std::span<const StepItem> items) const {
  int64_t rows = 0;
  for (const StepItem& item : items) {
    if (item.logits == StepItem::Logits::kAll) rows += static_cast<int64_t>(item.tokens.size());
    if (item.logits == StepItem::Logits::kLast) ++rows;
  }
  return rows;
}

Result<void> Engine::check_step(std::span<const StepItem> items) const {
  int64_t rows = 0;
  for (const StepItem& item : items) {
    QUIRE_CHECK(!item.tokens.empty(), "a step appends at least one token to each sequence");
    rows += static_cast<int64_t>(item.tokens.size());
    const int64_t end = item.sequence->length() + static_cast<int64_t>(item.tokens.size());
    if (end > window_.tokens) return check_fits(window_, end, 0);
    for (const TokenId token : item.tokens) {
      if (token.value >= 0 && token.value < model_.config().vocab) continue;
      return Error{ErrorCode::kUsage, fmt::format("token {} is outside the vocabulary of {}",
                                                  token.value, model_.config().vocab)};
    }
  }
  if (!options_.cache.recomputes()) QUIRE_CHECK_LE(rows, max_step_tokens());
  return {};
}

Result<void> Engine::step(std::span<const StepItem> items, std::span<float> logits) {
  QUIRE_TRY_VOID(check_step(items));
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  QUIRE_CHECK_LE(static_cast<size_t>(logit_rows(items)) * vocab, logits.size());
  if (!options_.cache.recomputes()) {
    QUIRE_TRY_VOID(step_cached(items, logits));
  } else {
    for (const StepItem& item : items) {
      const size_t wanted = static_cast<size_t>(logit_rows({&item, 1})) * vocab;
      QUIRE_TRY_VOID(step_uncached(item, logits.first(wanted)));
      logits = logits.subspan(wanted);
    }
  }
  take_tokens(items);
  return {};
}

void Engine::take_tokens(std::span<const StepItem> items) {
  for (const StepItem& item : items) {
    std::vector<TokenId>& tokens = item.sequence->tokens_;
    tokens.insert(tokens.end(), item.tokens.begin(), item.tokens.end());
  }
}

std::vector<Engine::CachedRun> Engine::cached_runs(std::span<const StepItem> items) {
  std::vector<CachedRun> runs;
  for (const StepItem& item : items) {
    runs.push_back({&item.sequence->cached_, item.tokens, item.logits});
  }
  return runs;
}

Result<void> Engine::step_cached(std::span<const StepItem> items, std::span<float> logits) {
  const std::vector<CachedRun> runs = cached_runs(items);
  // A disk that takes no more refuses here, and every sequence stays as it was.
  QUIRE_TRY_VOID(reserve(runs));
  Result<void> ran = run_reserved(runs, logits);
  if (ran.ok() || ran.error().code != ErrorCode::kIo) return ran;
  // A page did not come back from the spill file. It holds nothing that cannot be computed again.
  for (const StepItem& item : items) QUIRE_TRY_VOID(recompute(*item.sequence));
  return run_cached(runs, logits);
}

/// Reads the sequence's tokens again into fresh pages.
Result<void> Engine::recompute(Sequence& sequence) {
  sequence.cached_.reset();
  sequence.cached_ = store_->create_sequence();
  const std::vector<TokenId> tokens = std::exchange(sequence.tokens_, {});
  std::span<const TokenId> rest(tokens);
  while (!rest.empty()) {
    const size_t take = std::min(rest.size(), static_cast<size_t>(max_step_tokens()));
    const CachedRun run{&sequence.cached_, rest.first(take), StepItem::Logits::kNone};
    QUIRE_TRY_VOID(run_cached({&run, 1}, {}));
    sequence.tokens_.insert(sequence.tokens_.end(), rest.begin(),
                            rest.begin() + static_cast<std::ptrdiff_t>(take));
    rest = rest.subspan(take);
  }
  return {};
}

/// The reference: all tokens so far, from nothing, on pages that are dropped at the end.
Result<void> Engine::step_uncached(const StepItem& item, std::span<float> logits) {
  std::vector<TokenId> all = item.sequence->tokens_;
  all.insert(all.end(), item.tokens.begin(), item.tokens.end());
  const size_t fresh_from = item.sequence->tokens_.size();
  const kv::KvSequence scratch = store_->create_sequence();
  const auto chunk = static_cast<size_t>(max_step_tokens());
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  std::span<const TokenId> rest(all);
  size_t done = 0;
  while (!rest.empty()) {
    // A chunk ends where the new tokens begin, so that its rows are wanted wholly or not at all.
    const size_t until = done < fresh_from ? fresh_from - done : rest.size();
    const size_t take = std::min({chunk, rest.size(), until});
    const bool last = take == rest.size();
    StepItem::Logits wanted = StepItem::Logits::kNone;
    if (done >= fresh_from && (last || item.logits == StepItem::Logits::kAll)) wanted = item.logits;
    const CachedRun run{&scratch, rest.first(take), wanted};
    QUIRE_TRY_VOID(run_cached({&run, 1}, logits));
    if (wanted == StepItem::Logits::kAll) logits = logits.subspan(take * vocab);
    rest = rest.subspan(take);
    done += take;
  }
  return {};
}

Result<void> Engine::run_cached(std::span<const CachedRun> runs, std::span<float> logits) {
  QUIRE_TRY_VOID(reserve(runs));
  return run_reserved(runs, logits);
}

Result<void> Engine::reserve(std::span<const CachedRun> runs) {
  for (const CachedRun& run : runs) {
    // Nothing is committed before all have room, so a refusal leaves every sequence as it was.
    QUIRE_TRY_VOID(store_->reserve(*run.sequence, static_cast<int64_t>(run.tokens.size())));
  }
  return {};
}

Result<void> Engine::run_reserved(std::span<const CachedRun> runs, std::span<float> logits) {
  QUIRE_TRY_VOID(forward(runs, logits));
  for (const CachedRun& run : runs) {
    store_->commit(*run.sequence, static_cast<int64_t>(run.tokens.size()));
  }
  return {};
}

Result<void> Engine::forward(std::span<const CachedRun> runs, std::span<float> logits) {
  CachedBatch batch = lay_out(runs);
  look_up_pages(batch);
  QUIRE_TRY(kernels::LayerStream* const stream, store_->stream(batch.sequences));
  const Result<void> done = transformer_->forward({.tokens = batch.tokens,
                                                   .sequences = batch.parts,
                                                   .logit_rows = batch.logit_rows,
                                                   .stream = stream},
                                                  logits);
  store_->end_stream();
  return done;
}

CachedBatch Engine::lay_out(std::span<const CachedRun> runs) const {
  const size_t num_groups = store_->geometry().groups().size();
  CachedBatch batch;
  batch.views.resize(runs.size() * num_groups);
  for (size_t i = 0; i < runs.size(); ++i) {
    const CachedRun& run = runs[i];
    batch.sequences.push_back(run.sequence);
    batch.parts.push_back({.groups = std::span(batch.views).subspan(i * num_groups, num_groups),
                           .first_position = static_cast<int32_t>(store_->length(*run.sequence)),
                           .num_rows = static_cast<int32_t>(run.tokens.size())});
    const auto first = static_cast<int32_t>(batch.tokens.size());
    batch.tokens.insert(batch.tokens.end(), run.tokens.begin(), run.tokens.end());
    const auto end = static_cast<int32_t>(batch.tokens.size());
    if (run.logits == StepItem::Logits::kLast) batch.logit_rows.push_back(end - 1);
    if (run.logits == StepItem::Logits::kAll) {
      for (int32_t row = first; row < end; ++row) batch.logit_rows.push_back(row);
    }
  }
  return batch;
}

void Engine::look_up_pages(CachedBatch& batch) const {
  const size_t num_groups = store_->geometry().groups().size();
  for (size_t i = 0; i < batch.views.size(); ++i) {
    batch.views[i] =
        store_->view(*batch.sequences[i / num_groups], static_cast<int32_t>(i % num_groups));
  }
}

bool Engine::can_guess() const {
  return !options_.cache.recomputes() && !options_.cache.offload_bytes;
}

Result<void> Engine::step_guessing(std::span<const StepItem> items, std::span<float> logits,
                                   const Keep& keep) {
  QUIRE_CHECK(can_guess(), "guesses are run on pages in memory");
  QUIRE_TRY_VOID(check_step(items));
  const auto needed = static_cast<size_t>(logit_rows(items) * model_.config().vocab);
  QUIRE_CHECK_LE(needed, logits.size());
  const std::vector<CachedRun> runs = cached_runs(items);
  QUIRE_TRY_VOID(reserve(runs));
  QUIRE_TRY_VOID(forward(runs, logits));
  std::vector<int64_t> kept;
  for (const StepItem& item : items) kept.push_back(static_cast<int64_t>(item.tokens.size()));
  const std::vector<int64_t> all = kept;
  take_tokens(items);
  keep(logits.first(needed), kept);
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_CHECK(kept[i] >= 1 && kept[i] <= all[i], "some tokens stay");
    Sequence& sequence = *items[i].sequence;
    store_->commit(sequence.cached_, kept[i]);
    sequence.tokens_.resize(sequence.tokens_.size() - static_cast<size_t>(all[i] - kept[i]));
  }
  return {};
}

Result<std::span<const float>> Engine::append(Sequence& sequence, std::span<const TokenId> tokens,
                                              const Progress& progress) {
  QUIRE_CHECK(!tokens.empty(), "append() needs at least one token");
  const auto total = static_cast<int64_t>(tokens.size());
  if (sequence.length() + total > window_.tokens) {
    return check_fits(window_, sequence.length() + total, 0).error();
  }
  logits_.resize(static_cast<size_t>(model_.config().vocab));
  // Without a cache every step recomputes all, so the chunks are left to step_uncached().
  const bool whole = options_.cache.recomputes();
  const size_t chunk = static_cast<size_t>(max_step_tokens());
  while (!tokens.empty()) {
    const size_t take = whole ? tokens.size() : std::min(chunk, tokens.size());
    const StepItem item{
        .sequence = &sequence,
        .tokens = tokens.first(take),
        .logits = take == tokens.size() ? StepItem::Logits::kLast : StepItem::Logits::kNone};
    QUIRE_TRY_VOID(step({&item, 1}, logits_));
    tokens = tokens.subspan(take);
    const int64_t done = total - static_cast<int64_t>(tokens.size());
    if (progress && !progress(done, total)) {
      return Error{ErrorCode::kInterrupted, "interrupted while reading the prompt"};
    }
  }
  return std::span<const float>(logits_);
}

Result<void> Engine::append_all_logits(Sequence& sequence, std::span<const TokenId> tokens,
                                       const LogitsSink& sink) {
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  const int64_t affordable = kLogitsBytes / static_cast<int64_t>(vocab * sizeof(float));
  const auto chunk = static_cast<size_t>(std::clamp<int64_t>(affordable, 1, max_step_tokens()));
  int64_t index = 0;
  while (!tokens.empty()) {
    const size_t take = std::min(chunk, tokens.size());
    logits_.resize(take * vocab);
    const StepItem item{
        .sequence = &sequence, .tokens = tokens.first(take), .logits = StepItem::Logits::kAll};
    QUIRE_TRY_VOID(step({&item, 1}, logits_));
    for (size_t row = 0; row < take; ++row) {
      QUIRE_TRY_VOID(sink(index++, std::span<const float>(logits_).subspan(row * vocab, vocab)));
    }
    tokens = tokens.subspan(take);
  }
  return {};
}

}  // namespace quire::engine
