// engine.h: runs sequences of tokens through a model with their keys and values cached.
//
// Owns the KV store, the thread pool and the scratch; refers to a Model, which must outlive it. The
// logits of a token depend on the model, the tokens before it, the activation policy and the KV
// codec only (law 1). Every call does all it says or leaves the sequences as they were. Thread
// rule: one thread at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/private_file.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/cache_policy.h"
#include "engine/model.h"
#include "engine/sequence_cache.h"
#include "engine/window.h"
#include "kernels/kernel_set.h"
#include "kv/kv_store.h"
#include "model/transformer.h"

namespace quire::engine {

enum class PrefixReuse : uint8_t {
  kOn,   // what was published is found by its tokens
  kOff,  // sequences share pages only by fork()
};

struct EngineOptions {
  int32_t threads = 1;
  std::optional<int64_t> context_tokens;  // absent: the trained length
  CachePolicy cache;
  int32_t static_sequences = 1;  // that a static cache sets pages aside for
  kv::KvCodecs kv;
  kernels::ActivationPolicy activations = kernels::ActivationPolicy::kInt8;
  int32_t prefill_chunk = 512;  // changes no bit
  int64_t memory_bytes = 0;     // ceiling for keys, values and scratch together
  /// Where pages wait when the cache is offloaded, and how many bytes may wait there; both are only
  /// called then.
  std::function<Result<std::unique_ptr<PrivateFile>>()> open_spill_file;
  std::function<Result<int64_t>()> spill_room;
  std::string isa;                              // empty: the fastest; else as QUIRE_ISA
  PrefixReuse prefix_reuse = PrefixReuse::kOn;  // changes no bit
  std::optional<int64_t> prefix_bytes;          // of memory for pages, at most; absent: half of it
  model::Profile* profile = nullptr;            // where the time of each step is noted; outlives it
};

/// Whose pages a sequence may find, and who may find its own: those of the same scope.
struct CacheScope {
  std::string tenant = {};
  std::string salt = {};
  PrefixReuse reuse = PrefixReuse::kOn;  // off: it neither finds pages nor leaves any
};

/// A sequence's tokens with their cached keys and values. Move-only; returns its pages when
/// destroyed. Must not outlive its Engine.
class Sequence {
 public:
  Sequence(Sequence&&) = default;
  Sequence& operator=(Sequence&&) = default;

  std::span<const TokenId> tokens() const { return tokens_; }
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  friend class Engine;
  Sequence() = default;
  CacheScope scope_;
  std::vector<TokenId> tokens_;
  kv::KvSequence cached_;
};

/// What one sequence does in a step.
struct StepItem {
  enum class Logits : uint8_t { kNone, kLast, kAll };
  Sequence* sequence;
  std::span<const TokenId> tokens;  // to append; not empty
  Logits logits = Logits::kLast;
};

/// A batch on pages. // views: [sequences, layer groups]
struct CachedBatch {
  std::vector<const kv::KvSequence*> sequences;
  std::vector<kernels::PagedKvView> views;
  std::vector<model::BatchSequence> parts;
  std::vector<TokenId> tokens;
  std::vector<int32_t> logit_rows;
};

/// A step that has run some of its layers; see Engine::begin_step().
class PartialStep {
 public:
  PartialStep(PartialStep&&) = default;  // moves no vector's elements: `batch_` refers to itself
  PartialStep& operator=(PartialStep&&) = default;

  int64_t num_tokens() const { return static_cast<int64_t>(batch_.tokens.size()); }

 private:
  friend class Engine;
  PartialStep() = default;

  std::vector<StepItem> items_;
  CachedBatch batch_;
  model::PausedPass pass_;
};

/// How much of a prompt was there already.
struct Reuse {
  int64_t cached_tokens = 0;
  std::optional<kv::PrefixMiss> miss;  // why not more; nothing if only the last token has to run
};

/// What becomes of a sequence after publish().
enum class PublishPoint : uint8_t {
  kGoesOn,  // more tokens will follow at once
  kEnds,
};

/// Where the memory of an engine went, in bytes.
struct MemoryReport {
  int64_t weights = 0;
  int64_t kv = 0;          // pages held
  int64_t activation = 0;  // scratch and logits
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const Model& model, const EngineOptions& options);

  const Model& model() const { return model_; }
  const Window& window() const { return window_; }
  const CachePolicy& cache() const { return options_.cache; }
  int32_t num_threads() const { return threads_.num_threads(); }
  std::string_view isa() const { return kernels_->name; }
  const kv::KvGeometry& geometry() const { return store_->geometry(); }
  /// Sequences that the cache is made for: those of a static one, one of an offloaded one.
  int32_t most_sequences() const;
  /// Whether some layers see the last tokens only.
  bool has_windows() const;
  /// Whether sequences may find each other's pages, and then only whole ones.
  bool shares_prefixes() const;
  bool shares_whole_pages() const;
  kv::KvStats kv_stats() const { return store_->stats(); }
  MemoryReport memory() const;
  /// Who holds how many pages, counted now.
  kv::PageCounts page_counts() const { return store_->count_pages(); }
  /// The pages of a sequence, counted now.
  SequenceCache cached(const Sequence& sequence) const;
  /// Aborts if any page or byte is unaccounted for (law 3).
  void check() const { store_->check(); }

  Sequence create_sequence(CacheScope scope = {});
  /// A second sequence of the same scope, with the same tokens on the same pages.
  Sequence fork(const Sequence& sequence);
  /// Makes `sequence` the longest beginning of `prompt` that it, or any published sequence of its
  /// scope, holds: never the last token, whose logits are needed. What else it held is forgotten.
  Reuse resume(Sequence& sequence, std::span<const TokenId> prompt);
  /// Lets later prompts find the tokens of `sequence`. For layers with windows this is a point from
  /// which a prompt may go on. Where the sequence goes on itself, it keeps a last page that is not
  /// full to itself, unless windows would have left it behind.
  void publish(const Sequence& sequence, PublishPoint point);

  /// Forgets all tokens from `length` on. If pages that are needed there are gone (windows), the
  /// kept tokens are prefilled again; if the page there is sealed, those of it. Requires 0 <=
  /// length <= sequence.length().
  Result<void> truncate(Sequence& sequence, int64_t length);

  /// Most tokens of one step().
  int32_t max_step_tokens() const { return transformer_->max_rows(); }
  /// Appends to several sequences in one batch. `logits` receives [rows, vocab]: of each item's
  /// last token or of all, in order. kDoesNotFit if a window or memory is exceeded. Where the spill
  /// file of an offloaded cache fails, its sequences are computed anew; kIo if that fails as well,
  /// and then they hold what could be computed.
  Result<void> step(std::span<const StepItem> items, std::span<float> logits);

  /// As step(), where some tokens are guesses of those that follow a chosen one: `keep`, given all
  /// logits, says how many tokens of each item stay, at least one; it finds all of them there. The
  /// others leave no trace. While it runs, sequences hold the tokens of their items. Requires
  /// can_guess(). // logits: [rows, vocab]; kept: [items]
  using Keep = std::function<void(std::span<const float> logits, std::span<int64_t> kept)>;
  Result<void> step_guessing(std::span<const StepItem> items, std::span<float> logits,
                             const Keep& keep);

  /// Begins a step that runs a few layers at a time, so that others need not wait for all of it.
  /// Nothing is in the sequences before it is done: to drop it is to undo it. Until then they must
  /// not change; other sequences may. kDoesNotFit as step(). Requires pages in memory.
  Result<PartialStep> begin_step(std::span<const StepItem> items);
  /// Runs at least one more layer, and further ones while `goes_on` says so. True once the step is
  /// done: the same bits as step(). // logits: as of step(), written at the end
  bool continue_step(PartialStep& step, const std::function<bool()>& goes_on,
                     std::span<float> logits);
  /// Whether pages are kept, and all in memory: what step_guessing() and begin_step() need.
  bool can_guess() const;

  /// Tokens done of all; returns false to stop.
  using Progress = std::function<bool(int64_t done, int64_t total)>;
  /// Appends any number of tokens in chunks and returns the logits of the last, valid until the
  /// next call. kInterrupted if `progress` said so: what was done until then stays.
  Result<std::span<const float>> append(Sequence& sequence, std::span<const TokenId> tokens,
                                        const Progress& progress = nullptr);
  /// Appends and hands the logits of every token to `sink`, in order.
  using LogitsSink = std::function<Result<void>(int64_t index, std::span<const float> logits)>;
  Result<void> append_all_logits(Sequence& sequence, std::span<const TokenId> tokens,
                                 const LogitsSink& sink);

 private:
  Engine(const Model& model, EngineOptions options, Window window,
         const kernels::KernelSet* kernels);
  /// One chunk on pages. The sequence's token list is the caller's business.
  struct CachedRun {
    const kv::KvSequence* sequence;
    std::span<const TokenId> tokens;
    StepItem::Logits logits;
  };
  bool may_share(const Sequence& sequence) const;
  kv::IdentityKey key_of(const Sequence& sequence) const;
  int64_t logit_rows(std::span<const StepItem> items) const;
  static void take_tokens(std::span<const StepItem> items);
  static std::vector<CachedRun> cached_runs(std::span<const StepItem> items);
  Result<void> reread_from(Sequence& sequence, int64_t start, int64_t length);
  Result<void> check_step(std::span<const StepItem> items) const;
  Result<void> step_cached(std::span<const StepItem> items, std::span<float> logits);
  Result<void> step_uncached(const StepItem& item, std::span<float> logits);
  Result<void> run_cached(std::span<const CachedRun> runs, std::span<float> logits);
  /// Makes room for all runs, or for none.
  Result<void> reserve(std::span<const CachedRun> runs);
  /// Computes and commits what was reserved; nothing is committed if it fails.
  Result<void> run_reserved(std::span<const CachedRun> runs, std::span<float> logits);
  /// Computes what was reserved.
  Result<void> forward(std::span<const CachedRun> runs, std::span<float> logits);
  Result<void> recompute(Sequence& sequence);
  CachedBatch lay_out(std::span<const CachedRun> runs) const;
  /// Fills in the views, which hold until a sequence changes.
  void look_up_pages(CachedBatch& batch) const;

  const Model& model_;
  const EngineOptions options_;
  const Window window_;
  const kernels::KernelSet* kernels_;
  ThreadPool threads_;
  std::unique_ptr<kv::KvStore> store_;
  kv::IdentityKey key_;  // of the scope without a name
  std::unique_ptr<model::Transformer> transformer_;
  std::vector<float> logits_;  // grows to what append() needs
};

}  // namespace quire::engine
