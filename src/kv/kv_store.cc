#include "kv/kv_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"

namespace quire::kv {
namespace {

/// Whether the table reaches the sequence's end. After a rollback a short window may have left
/// nothing right before it.
bool reaches(const PageTable& table, int64_t length) {
  return !table.empty() && table.end_position() >= length;
}

/// Where the table's next page will start. A window of one token may have left nothing behind; its
/// next page then starts in the middle, so that pages stay anchored at position 0.
int64_t pages_end(const PageTable& table, int64_t length) {
  if (!reaches(table, length)) return length - length % kPageTokens;
  return table.end_position() + table.room();
}

/// Grows the table over `end`, first in the last page and then in the fresh ones.
void grow(PageTable& table, int64_t length, int64_t end, std::vector<PageRef> fresh) {
  int64_t base = pages_end(table, length);
  int64_t begin = base;
  if (reaches(table, length)) {
    table.extend_to(std::min(end, base));
  } else {
    begin = length;
  }
  for (PageRef& page : fresh) {
    const auto position = static_cast<int32_t>(base);
    PageTableEntry entry{.page = std::move(page),
                         .stored_base = position,
                         .logical_base = position,
                         .begin = static_cast<int16_t>(begin - base),
                         .end = static_cast<int16_t>(std::min(kPageTokens, end - base))};
    if (begin == length) {
      table.append_behind_break(std::move(entry));
    } else {
      table.append(std::move(entry));
    }
    base += kPageTokens;
    begin = base;
  }
}

/// Gives the pages that are full now their sealed forms.
void add_sealed(PageTable& table, std::vector<PageRef> sealed) {
  size_t index = table.entries().size() - 1;
  while (!sealed.empty()) {
    const PageTableEntry& entry = table.entries()[index];
    if (entry.is_sealable() && !entry.sealed) {
      table.set_sealed(index, std::move(sealed.back()));
      sealed.pop_back();
    }
    --index;
  }
}

/// Returns the open forms that no query will read any more.
void drop_read_open_pages(PageTable& table, int64_t length) {
  const auto entries = table.entries();
  for (size_t i = entries.size(); i-- > 0;) {
    const PageTableEntry& entry = entries[i];
    if (entry.end_position() >= length) continue;
    if (!entry.is_sealable()) continue;
    if (!entry.page) return;  // those before it went earlier
    table.drop_open(i);
  }
}

PrefixTreeOptions tree_options(const KvStoreOptions& options) {
  PrefixTreeOptions tree = options.prefix;
  // A partly shared page is copied before it is written; a spilled one cannot be.
  tree.whole_pages = tree.whole_pages || options.spill.has_value();
  return tree;
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
  if (options.spill) QUIRE_TRY_VOID(store->create_spills(*options.spill));
  return store;
}

KvStore::KvStore(KvGeometry geometry, const KvStoreOptions& options)
    : geometry_(std::move(geometry)),
      ledger_(options.budget_bytes),
      tree_(geometry_, tree_options(options)) {}

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
    const int64_t tokens = fixed ? fixed->tokens : 0;
    const int64_t chunk = fixed ? fixed->chunk_tokens : 0;
    GroupPools pools;
    QUIRE_TRY(pools.open,
              create_pool(group.page_bytes(), group.peak_open_pages(tokens, chunk), options));
    if (!group.is_lossless()) {
      QUIRE_TRY(pools.sealed, create_pool(group.sealed_page_bytes(),
                                          group.peak_sealed_pages(tokens, chunk), options));
    }
    pools_.push_back(std::move(pools));
  }
  return {};
}

Result<std::unique_ptr<PagePool>> KvStore::create_pool(int64_t page_bytes, int64_t peak_pages,
                                                       const KvStoreOptions& options) {
  PagePoolOptions pool{.page_bytes = page_bytes};
  if (options.static_reservation) {
    pool.max_pages = peak_pages * options.static_reservation->sequences;
    pool.preallocated_pages = pool.max_pages;
  } else {
    const int64_t bytes = options.budget_bytes + (options.spill ? options.spill->max_bytes : 0);
    pool.max_pages = std::min<int64_t>(bytes / page_bytes, INT32_MAX);
  }
  return PagePool::create(pool, ledger_);
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
  shrink_staging();
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
  const auto add = [&](const PagePool& pool, int64_t pages) {
    plan.new_pages += pages;
    plan.needed_bytes += pages * pool.page_bytes();
    // Preallocated pages that nobody holds are on the ledger, and yet free.
    plan.available_bytes +=
        pool.charged_bytes() - (pool.num_held() - pool.num_spilled()) * pool.page_bytes();
    const auto pool_price = pool.price(pages);
    plan.fits = plan.fits && pool_price.has_value();
    price += pool_price.value_or(0);
  };
  for (size_t g = 0; g < pools_.size(); ++g) {
    plan.copied_pages += needed[g].copies_last ? 1 : 0;
    add(*pools_[g].open, needed[g].open_pages());
    if (pools_[g].sealed) add(*pools_[g].sealed, needed[g].sealed_pages);
  }
  plan.fits = plan.fits && price <= ledger_.available();
  return plan;
}

Result<void> KvStore::reserve(const KvSequence& seq, int64_t tokens) {
  Sequence& sequence = find(seq);
  if (tokens <= sequence.reserved) return {};
  if (tokens > kMaxTokens - sequence.length) return too_long(tokens, sequence.length);
  QUIRE_TRY(const ReservePlan plan, make_room(seq, tokens));
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
    add_sealed(table, std::move(group.sealed));
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
    const LayerGroup& group = geometry_.groups()[g];
    const int64_t behind_sinks = round_up(group.sink_tokens, kPageTokens);
    sequence.tables[g].drop_between(behind_sinks, group.first_kept(sequence.length));
    if (!group.is_lossless()) drop_read_open_pages(sequence.tables[g], sequence.length);
  }
  recount(sequence);
}

Result<void> KvStore::truncate(const KvSequence& seq, int64_t length) {
  Sequence& sequence = find(seq);
  QUIRE_CHECK_LE(0, length);
  QUIRE_CHECK_LE(length, sequence.length);
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (auto fault = find_rollback_fault(sequence, g, length)) return *std::move(fault);
  }
  sequence.length = length;
  end_reservation(sequence);
  recount(sequence);
  return {};
}

/// The plan once the prefix tree and then full pages have given way as far as they need to.
Result<ReservePlan> KvStore::make_room(const KvSequence& seq, int64_t tokens) {
  shrink_staging();
  ReservePlan plan = plan_reserve(seq, tokens);
  if (!plan.fits) {
    tree_.evict_until([&] { return (plan = plan_reserve(seq, tokens)).fits; });
  }
  while (!plan.fits) {
    QUIRE_TRY(const bool spilled, spill_one());
    if (!spilled) break;
    plan = plan_reserve(seq, tokens);
  }
  return plan;
}

std::optional<Error> KvStore::find_rollback_fault(const Sequence& sequence, size_t g,
                                                  int64_t length) const {
  const LayerGroup& group = geometry_.groups()[g];
  const PageTable& table = sequence.tables[g];
  const int64_t sinks = std::min<int64_t>(group.sink_tokens, length);
  if (!table.covers(0, sinks) || !table.covers(group.first_needed(length), length)) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("cannot roll the KV cache back from {} to {} tokens: the layers with a "
                    "window of {} tokens hold nothing before position {} any more; "
                    "prefill again from the start",
                    sequence.length, length, group.window_tokens, table.tail_begin())};
  }
  if (length % kPageTokens == 0) return std::nullopt;
  const int64_t base = length - length % kPageTokens;
  const auto entries = table.entries();
  const auto own = std::find_if(entries.begin(), entries.end(), [&](const PageTableEntry& e) {
    return e.first_position() <= base && length <= e.end_position();
  });
  if (own != entries.end() && own->page && !own->page.is_spilled()) return std::nullopt;
  if (own == entries.end() && group.is_lossless()) return std::nullopt;
  const std::string why =
      group.is_lossless() ? "in the spill file" : "sealed in " + kv::name(group.codecs);
  return Error{ErrorCode::kUnsupported,
               fmt::format("cannot roll the KV cache back from {} to {} tokens: the page that "
                           "starts at position {} is {}; roll back to its start and read the "
                           "tokens behind it again",
                           sequence.length, length, base, why)};
}

kernels::PagedKvView KvStore::view(const KvSequence& seq, int32_t group) const {
  const LayerGroup& layers = geometry_.groups().at(static_cast<size_t>(group));
  return {.shape = layers.shape(),
          .pages = table(seq, group).spans(),
          .window = layers.window_tokens,
          .sinks = layers.sink_tokens};
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
    for (const PageTableEntry& entry : sequence.tables[g].entries()) {
      if (entry.page && !entry.page.is_spilled()) bytes += pools_[g].open->page_bytes();
      if (entry.sealed && !entry.sealed.is_spilled()) bytes += pools_[g].sealed->page_bytes();
    }
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
  for (const GroupPools& pools : pools_) {
    KvGroupStats group{.page_bytes = pools.open->page_bytes(),
                       .pages_held = pools.open->num_held(),
                       .pages_free = pools.open->num_available(),
                       .pages_cached = pools.open->num_cached()};
    if (pools.sealed) {
      group.sealed_page_bytes = pools.sealed->page_bytes();
      group.sealed_pages_held = pools.sealed->num_held();
      group.sealed_pages_free = pools.sealed->num_available();
      group.sealed_pages_cached = pools.sealed->num_cached();
    }
    group.pages_spilled = pools.full().num_spilled();
    stats.bytes_spilled += group.pages_spilled * pools.full().page_bytes();
    stats.groups.push_back(group);
    stats.bytes_cached +=
        group.pages_cached * group.page_bytes + group.sealed_pages_cached * group.sealed_page_bytes;
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
  shrink_staging();
}

void KvStore::end_reservation(Sequence& sequence) {
  for (PageTable& table : sequence.tables) table.truncate(sequence.length);
  sequence.reserved = 0;
}

void KvStore::recount(Sequence& sequence) {
  int64_t bytes = 0;
  for (size_t g = 0; g < pools_.size(); ++g) bytes += counted_bytes(sequence, g);
  bytes_used_.fetch_add(bytes - sequence.used_bytes, std::memory_order_relaxed);
  sequence.used_bytes = bytes;
}

/// What LayerGroup::used_bytes() says, of what is still there after a rollback.
int64_t KvStore::counted_bytes(const Sequence& sequence, size_t g) const {
  const LayerGroup& group = geometry_.groups()[g];
  const PageTable& table = sequence.tables[g];
  const int64_t length = sequence.length;
  if (group.is_lossless()) {
    const int64_t tail = reaches(table, length) ? table.tail_begin() : length;
    const int64_t kept = std::max(tail, group.first_kept(length));
    return (length - kept + std::min<int64_t>(group.sink_tokens, kept)) * group.row_bytes();
  }
  int64_t bytes = 0;
  for (const PageTableEntry& entry : table.entries()) {
    const int64_t end = std::min(length, entry.end_position());
    const bool is_sealed = entry.is_sealable() && entry.end_position() <= length;
    if (is_sealed) bytes += group.sealed_payload_bytes();
    if (!is_sealed && end > entry.first_position()) {
      bytes += (end - entry.first_position()) * group.row_bytes();
    }
  }
  return bytes;
}

std::vector<KvStore::GroupNeed> KvStore::needs(const Sequence& sequence, int64_t end) const {
  std::vector<GroupNeed> needs;
  for (size_t g = 0; g < pools_.size(); ++g) {
    const PageTable& table = sequence.tables[g];
    const int64_t covered = pages_end(table, sequence.length);
    const int64_t beyond = std::max<int64_t>(0, end - covered);
    const bool writes_last =
        reaches(table, sequence.length) && table.room() > 0 && end > table.end_position();
    GroupNeed need{.copies_last = writes_last && table.last_is_shared(),
                   .fresh_pages = divide_up(beyond, kPageTokens)};
    if (pools_[g].sealed) {
      // Pages [first filled, end) become full; those filled before have their sealed form.
      const int64_t first = std::max<int64_t>(1, sequence.length / kPageTokens);
      need.sealed_pages = std::max<int64_t>(0, end / kPageTokens - first);
      const auto entries = table.entries();
      for (size_t i = entries.size(); i-- > 0 && entries[i].end_position() > sequence.length;) {
        const bool counted = entries[i].sealed && entries[i].end_position() <= end;
        if (counted) --need.sealed_pages;
      }
    }
    needs.push_back(need);
  }
  return needs;
}

/// All pages or none: what was taken returns by itself.
std::optional<std::vector<KvStore::GroupPages>> KvStore::acquire_pages(const Sequence& sequence,
                                                                       int64_t end) {
  const auto needed = needs(sequence, end);
  std::vector<GroupPages> taken(pools_.size());
  const auto acquire = [](PagePool& pool, int64_t count, std::vector<PageRef>& pages) {
    for (int64_t i = 0; i < count; ++i) {
      auto page = pool.acquire();
      if (!page) return false;
      pages.push_back(std::move(*page));
    }
    return true;
  };
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (needed[g].copies_last) {
      auto copy = pools_[g].open->acquire_copy(sequence.tables[g].entries().back().page);
      if (!copy) return std::nullopt;
      taken[g].copy = std::move(*copy);
    }
    if (!acquire(*pools_[g].open, needed[g].fresh_pages, taken[g].fresh)) return std::nullopt;
    if (!pools_[g].sealed) continue;
    if (!acquire(*pools_[g].sealed, needed[g].sealed_pages, taken[g].sealed)) return std::nullopt;
  }
  return taken;
}

}  // namespace quire::kv
