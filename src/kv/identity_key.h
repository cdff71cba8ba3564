// identity_key.h: what must be equal for a page of one context to serve another (law 2).
//
// The one place where reuse is decided. Everything that the bits of a key or value row depend on
// besides the tokens is a field, and so is who may see it. What is not a field must change no bit:
// threads, instruction set, chunks, neighbours. Weights and rotation tables are digested when first
// asked for: keys of one model compare without it. Values; LazyDigest may be used from any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "kv/codec.h"
#include "kv/geometry.h"

namespace quire::kv {

/// How rows lie in a page (kernels/paged_kv_view.h). Raise it when that changes.
inline constexpr int32_t kPageLayoutVersion = 1;
/// What the numeric path computes, bit for bit (docs/numerics.md). Raise it when any row's bits
/// change.
inline constexpr int32_t kNumericPathVersion = 1;

/// A digest that is computed once, when first asked for. Copies share the computation.
class LazyDigest {
 public:
  /// The digest of nothing.
  LazyDigest();
  /// `compute` is called at most once; what it refers to must outlive all copies.
  explicit LazyDigest(std::function<Digest()> compute);

  [[nodiscard]] Digest value() const;
  /// Whether value() has been called on any copy.
  [[nodiscard]] bool is_computed() const;
  /// Copies of one are equal without computing anything.
  friend bool operator==(const LazyDigest& a, const LazyDigest& b);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared: the copies' one computation
};

struct IdentityKey {
  LazyDigest weights;
  std::vector<LayerKv> layers;        // geometry, and what each layer sees
  Digest rope;                        // parameters of all rotations
  LazyDigest rope_table;              // bytes of their tables: math libraries differ
  std::vector<Digest> adapters = {};  // in the order they are applied
  KvCodecs codecs;
  int32_t activations = 0;  // kernels::ActivationPolicy: weights meet other numbers
  int32_t page_layout = kPageLayoutVersion;
  int32_t numeric_path = kNumericPathVersion;
  std::string tenant = {};  // namespace: nothing of one tenant is shown to another
  std::string salt = {};    // chosen by the caller, to keep its pages to itself
};

/// The first field that differs, by its name in the reuse report; nothing for equal keys. Cheap
/// fields first, digests last.
[[nodiscard]] std::optional<std::string_view> first_difference(const IdentityKey& a,
                                                               const IdentityKey& b);
/// Whether pages under one may be mentioned to a reader of the other: tenant and salt agree.
[[nodiscard]] bool may_mention(const IdentityKey& a, const IdentityKey& b);
/// One number for all fields, for stored pages. Computes the lazy digests.
[[nodiscard]] Digest fingerprint(const IdentityKey& key);
/// Where the chain of page hashes under this key begins: tenant and salt, which cost nothing.
[[nodiscard]] uint64_t chain_seed(const IdentityKey& key);

}  // namespace quire::kv
