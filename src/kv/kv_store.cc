#include "kv/kv_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire::kv {
namespace {

/// Rows of the sequence that the table still holds among those it has to keep.
int64_t used_tokens(const LayerGroup& group, const PageTable& table, int64_t length) {
  const int64_t first = table.empty() ? length : table.first_position();
  return length - std::max(first, group.first_kept(length));
}

/// Where the table's next page will start. A window of one token may have left nothing behind; its
/// next page then starts in the middle, so that pages stay anchored at position 0.
int64_t pages_end(const PageTable& table, int64_t length) {
  if (table.empty()) return length - length % kPageTokens;
  return table.end_position() + table.room();
}

/// Grows the table over `end`, first in the last page and then in the fresh ones.
void grow(PageTable& table, int64_t length, int64_t end, std::vector<PageRef> fresh) {
  int64_t base = pages_end(table, length);
  int64_t begin = table.empty() ? length : base;
  if (!table.empty()) table.extend_to(std::min(end, base));
  for (PageRef& page : fresh) {
    const auto position = static_cast<int32_t>(base);
    table.append({.page = std::move(page),
                  .stored_base = position,
                  .logical_base = position,
                  .begin = static_cast<int16_t>(begin - base),
                  .end = static_cast<int16_t>(std::min(kPageTokens, end - base))});
    base += kPageTokens;
    begin = base;
  }
}

Error no_room(const ReservePlan& plan, int64_t length, int64_t budget) {
  return {ErrorCode::kDoesNotFit,
          fmt::format("the KV cache has no room for {} more tokens after {}: they need {} pages of "
                      "{} bytes in all, but {} of {} bytes are free; lower the context, end "
                      "another sequence or raise the memory budget",
                      plan.tokens, length, plan.new_pages, plan.needed_bytes, plan.available_bytes,
                      budget)};
}

Error too_long(int64_t tokens, int64_t length) {
  return {ErrorCode::kDoesNotFit,
          fmt::format("{} more tokens after {} pass the {} positions that a KV cache can number",
                      tokens, length, kMaxTokens)};
}

}  // namespace

KvSequence::KvSequence(KvSequence&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), id_(std::exchange(other.id_, SeqId{})) {}

KvSequence& KvSequence::operator=(KvSequence&& other) noexcept {
  KvSequence taken(std::move(other));
  std::swap(store_, taken.store_);
  std::swap(id_, taken.id_);
  return *this;
}

void KvSequence::reset() {
  if (store_ == nullptr) return;
  std::exchange(store_, nullptr)->release(std::exchange(id_, SeqId{}));
}

Result<std::unique_ptr<KvStore>> KvStore::create(KvGeometry geometry,
                                                 const KvStoreOptions& options) {
  QUIRE_CHECK_LE(0, options.budget_bytes);
  // make_unique cannot reach the private constructor.
  std::unique_ptr<KvStore> store(new KvStore(std::move(geometry), options));
  QUIRE_TRY_VOID(store->create_pools(options));
  return store;
}

KvStore::KvStore(KvGeometry geometry, const KvStoreOptions& options)
    : geometry_(std::move(geometry)),
      ledger_(options.budget_bytes),
      tree_(geometry_, options.prefix) {}

KvStore::~KvStore() {
  QUIRE_CHECK(sequences_.empty(), "a sequence outlives its KvStore");
}

Result<void> KvStore::create_pools(const KvStoreOptions& options) {
  const auto& fixed = options.static_reservation;
  if (fixed) {
    QUIRE_CHECK_LE(0, fixed->sequences);
    QUIRE_CHECK_LE(fixed->sequences, INT16_MAX);
    const int64_t one = geometry_.peak_bytes(fixed->tokens, fixed->chunk_tokens);
    if (fixed->sequences > 0 && one > options.budget_bytes / fixed->sequences) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("a static KV cache for {} sequences of {} tokens needs {} bytes "
                               "each, but the memory budget is {}: lower the context or the number "
                               "of sequences, or raise the budget",
                               fixed->sequences, fixed->tokens, one, options.budget_bytes)};
    }
  }
  for (const LayerGroup& group : geometry_.groups()) {
    PagePoolOptions pool{.page_bytes = group.page_bytes()};
    if (fixed) {
      pool.max_pages = group.peak_pages(fixed->tokens, fixed->chunk_tokens) * fixed->sequences;
      pool.preallocated_pages = pool.max_pages;
    } else {
      pool.max_pages = std::min<int64_t>(options.budget_bytes / pool.page_bytes, INT32_MAX);
    }
    QUIRE_TRY(auto created, PagePool::create(pool, ledger_));
    pools_.push_back(std::move(created));
  }
  return {};
}

KvSequence KvStore::create_sequence() {
  Sequence sequence;
  sequence.tables.resize(pools_.size());
  return adopt(std::move(sequence));
}

KvSequence KvStore::fork(const KvSequence& seq) {
  Sequence& source = find(seq);
  end_reservation(source);
  Sequence twin;
  twin.length = source.length;
  for (const PageTable& table : source.tables) twin.tables.push_back(table.fork(source.length));
  return adopt(std::move(twin));
}

PrefixMatch KvStore::match(const IdentityKey& key, std::span<const TokenId> tokens) {
  return tree_.match(key, tokens);
}

KvSequence KvStore::adopt(const PrefixMatch& match) {
  Sequence sequence;
  sequence.length = match.tokens;
  sequence.tables = tree_.share(match);
  return adopt(std::move(sequence));
}

void KvStore::publish(const IdentityKey& key, const KvSequence& seq,
                      std::span<const TokenId> tokens, PublishTail tail) {
  Sequence& sequence = find(seq);
  QUIRE_CHECK_EQ(static_cast<int64_t>(tokens.size()), sequence.length);
  end_reservation(sequence);
  tree_.publish(key, tokens, sequence.tables, tail);
}

void KvStore::forget_prefixes() {
  tree_.evict_until([] { return false; });
}

ReservePlan KvStore::plan_reserve(const KvSequence& seq, int64_t tokens) const {
  QUIRE_CHECK_LE(0, tokens);
  const Sequence& sequence = find(seq);
  ReservePlan plan{.tokens = tokens, .available_bytes = ledger_.available(), .fits = true};
  if (tokens > kMaxTokens - sequence.length) {
    plan.fits = false;
    return plan;
  }
  int64_t price = 0;
  const auto needed = needs(sequence, sequence.length + tokens);
  for (size_t g = 0; g < pools_.size(); ++g) {
    const int64_t pages = needed[g].pages();
    plan.new_pages += pages;
    plan.copied_pages += needed[g].copies_last ? 1 : 0;
    plan.needed_bytes += pages * pools_[g]->page_bytes();
    // Preallocated pages that nobody holds are on the ledger, and yet free.
    plan.available_bytes +=
        pools_[g]->charged_bytes() - pools_[g]->num_held() * pools_[g]->page_bytes();
    const auto group_price = pools_[g]->price(pages);
    plan.fits = plan.fits && group_price.has_value();
    price += group_price.value_or(0);
  }
  plan.fits = plan.fits && price <= ledger_.available();
  return plan;
}

Result<void> KvStore::reserve(const KvSequence& seq, int64_t tokens) {
  Sequence& sequence = find(seq);
  if (tokens <= sequence.reserved) return {};
  if (tokens > kMaxTokens - sequence.length) return too_long(tokens, sequence.length);
  ReservePlan plan = plan_reserve(seq, tokens);
  if (!plan.fits) {
    tree_.evict_until([&] { return (plan = plan_reserve(seq, tokens)).fits; });
  }
  const int64_t end = sequence.length + tokens;
  auto pages = plan.fits ? acquire_pages(sequence, end) : std::nullopt;
  if (!pages) return no_room(plan, sequence.length, ledger_.ceiling());

  for (size_t g = 0; g < pools_.size(); ++g) {
    PageTable& table = sequence.tables[g];
    GroupPages& group = (*pages)[g];
    if (group.copy) {
      table.replace_last(std::move(group.copy));
      pages_copied_.fetch_add(1, std::memory_order_relaxed);
    }
    grow(table, sequence.length, end, std::move(group.fresh));
  }
  sequence.reserved = tokens;
  return {};
}

void KvStore::commit(const KvSequence& seq, int64_t tokens) {
  Sequence& sequence = find(seq);
  QUIRE_CHECK_LE(0, tokens);
  QUIRE_CHECK_LE(tokens, sequence.reserved);
  sequence.length += tokens;
  sequence.reserved -= tokens;
  for (size_t g = 0; g < pools_.size(); ++g) {
    sequence.tables[g].drop_before(geometry_.groups()[g].first_kept(sequence.length));
  }
  recount(sequence);
}

Result<void> KvStore::truncate(const KvSequence& seq, int64_t length) {
  Sequence& sequence = find(seq);
  QUIRE_CHECK_LE(0, length);
  QUIRE_CHECK_LE(length, sequence.length);
  for (size_t g = 0; g < pools_.size(); ++g) {
    const LayerGroup& group = geometry_.groups()[g];
    const int64_t first = sequence.tables[g].first_position();
    const int64_t needed = group.first_needed(length);
    if (needed < length && needed < first) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("cannot roll the KV cache back from {} to {} tokens: the layers "
                               "with a window of {} tokens hold nothing before position {} any "
                               "more; prefill again from the start",
                               sequence.length, length, group.window_tokens, first)};
    }
  }
  sequence.length = length;
  end_reservation(sequence);
  recount(sequence);
  return {};
}

kernels::PagedKvView KvStore::view(const KvSequence& seq, int32_t group) const {
  const LayerGroup& layers = geometry_.groups().at(static_cast<size_t>(group));
  return {
      .shape = layers.shape(), .pages = table(seq, group).spans(), .window = layers.window_tokens};
}

int64_t KvStore::length(const KvSequence& seq) const {
  return find(seq).length;
}

int64_t KvStore::reserved(const KvSequence& seq) const {
  return find(seq).reserved;
}

int64_t KvStore::used_bytes(const KvSequence& seq) const {
  return find(seq).used_bytes;
}

int64_t KvStore::held_bytes(const KvSequence& seq) const {
  const Sequence& sequence = find(seq);
  int64_t bytes = 0;
  for (size_t g = 0; g < pools_.size(); ++g) {
    bytes += sequence.tables[g].num_pages() * pools_[g]->page_bytes();
  }
  return bytes;
}

const PageTable& KvStore::table(const KvSequence& seq, int32_t group) const {
  return find(seq).tables.at(static_cast<size_t>(group));
}

KvStats KvStore::stats() const {
  KvStats stats{.bytes_used = bytes_used_.load(std::memory_order_relaxed),
                .bytes_held = ledger_.used(),
                .bytes_peak = ledger_.peak(),
                .bytes_budget = ledger_.ceiling(),
                .num_sequences = num_sequences_.load(std::memory_order_relaxed),
                .pages_copied = pages_copied_.load(std::memory_order_relaxed),
                .bytes_prefix = tree_.bytes(),
                .prefix_nodes = tree_.num_nodes(),
                .prefix_evicted = tree_.evicted_pages(),
                .prefix_collisions = tree_.num_collisions()};
  for (const auto& pool : pools_) {
    stats.groups.push_back({.page_bytes = pool->page_bytes(),
                            .pages_held = pool->num_held(),
                            .pages_free = pool->num_available(),
                            .pages_cached = pool->num_cached()});
    stats.bytes_cached += pool->num_cached() * pool->page_bytes();
  }
  return stats;
}

KvStore::Sequence& KvStore::find(const KvSequence& seq) {
  return const_cast<Sequence&>(std::as_const(*this).find(seq));
}

const KvStore::Sequence& KvStore::find(const KvSequence& seq) const {
  QUIRE_CHECK(seq.store_ == this, "a sequence of another KvStore, or an empty one");
  return sequences_.at(seq.id_);
}

KvSequence KvStore::adopt(Sequence sequence) {
  const SeqId id{next_id_++};
  Sequence& adopted = sequences_.emplace(id, std::move(sequence)).first->second;
  num_sequences_.fetch_add(1, std::memory_order_relaxed);
  recount(adopted);
  return KvSequence(this, id);
}

void KvStore::release(SeqId id) {
  const auto found = sequences_.find(id);
  QUIRE_CHECK(found != sequences_.end(), "a sequence is released once");
  bytes_used_.fetch_sub(found->second.used_bytes, std::memory_order_relaxed);
  num_sequences_.fetch_sub(1, std::memory_order_relaxed);
  sequences_.erase(found);
}

void KvStore::end_reservation(Sequence& sequence) {
  for (PageTable& table : sequence.tables) table.truncate(sequence.length);
  sequence.reserved = 0;
}

void KvStore::recount(Sequence& sequence) {
  int64_t bytes = 0;
  for (size_t g = 0; g < pools_.size(); ++g) {
    const LayerGroup& group = geometry_.groups()[g];
    bytes += group.bytes_per_token() * used_tokens(group, sequence.tables[g], sequence.length);
  }
  bytes_used_.fetch_add(bytes - sequence.used_bytes, std::memory_order_relaxed);
  sequence.used_bytes = bytes;
}

std::vector<KvStore::GroupNeed> KvStore::needs(const Sequence& sequence, int64_t end) const {
  std::vector<GroupNeed> needs;
  for (const PageTable& table : sequence.tables) {
    const int64_t covered = pages_end(table, sequence.length);
    const int64_t beyond = std::max<int64_t>(0, end - covered);
    const bool writes_last = table.room() > 0 && end > table.end_position();
    needs.push_back({.copies_last = writes_last && table.last_is_shared(),
                     .fresh_pages = (beyond + kPageTokens - 1) / kPageTokens});
  }
  return needs;
}

/// All pages or none: what was taken returns by itself.
std::optional<std::vector<KvStore::GroupPages>> KvStore::acquire_pages(const Sequence& sequence,
                                                                       int64_t end) {
  const auto needed = needs(sequence, end);
  std::vector<GroupPages> taken(pools_.size());
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (needed[g].copies_last) {
      auto copy = pools_[g]->acquire_copy(sequence.tables[g].entries().back().page);
      if (!copy) return std::nullopt;
      taken[g].copy = std::move(*copy);
    }
    for (int64_t i = 0; i < needed[g].fresh_pages; ++i) {
      auto page = pools_[g]->acquire();
      if (!page) return std::nullopt;
      taken[g].fresh.push_back(std::move(*page));
    }
  }
  return taken;
}

}  // namespace quire::kv
