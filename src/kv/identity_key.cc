#include "kv/identity_key.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace quire::kv {
namespace {

bool same_shape(const LayerKv& a, const LayerKv& b) {
  return a.num_kv_heads == b.num_kv_heads && a.head_dim == b.head_dim;
}

bool same_window(const LayerKv& a, const LayerKv& b) {
  return a.window_tokens == b.window_tokens;
}

bool same_sinks(const LayerKv& a, const LayerKv& b) {
  return a.sink_tokens == b.sink_tokens;
}

void add(DigestBuilder& builder, Digest digest) {
  builder.add_number(digest.low);
  builder.add_number(digest.high);
}

}  // namespace

struct LazyDigest::State {
  std::function<Digest()> compute;
  std::once_flag once;
  std::atomic<bool> computed{false};
  Digest value;
};

LazyDigest::LazyDigest() : LazyDigest([] { return Digest{}; }) {}

LazyDigest::LazyDigest(std::function<Digest()> compute) : state_(std::make_shared<State>()) {
  state_->compute = std::move(compute);
}

Digest LazyDigest::value() const {
  std::call_once(state_->once, [&state = *state_] {
    state.value = state.compute();
    state.compute = nullptr;
    state.computed = true;
  });
  return state_->value;
}

bool LazyDigest::is_computed() const {
  return state_->computed;
}

bool operator==(const LazyDigest& a, const LazyDigest& b) {
  return a.state_ == b.state_ || a.value() == b.value();
}

std::optional<std::string_view> first_difference(const IdentityKey& a, const IdentityKey& b) {
  if (a.tenant != b.tenant) return "namespace";
  if (a.salt != b.salt) return "salt";
  if (!std::ranges::equal(a.layers, b.layers, same_shape)) return "geometry";
  if (!std::ranges::equal(a.layers, b.layers, same_window)) return "window";
  if (!std::ranges::equal(a.layers, b.layers, same_sinks)) return "sinks";
  if (a.rope != b.rope) return "rope";
  if (a.adapters != b.adapters) return "adapters";
  if (a.codecs != b.codecs) return "kv";
  if (a.activations != b.activations) return "activations";
  if (a.page_layout != b.page_layout) return "page_layout";
  if (a.numeric_path != b.numeric_path) return "numeric_path";
  if (a.rope_table != b.rope_table) return "rope_table";
  if (a.weights != b.weights) return "weights";
  return std::nullopt;
}

bool may_mention(const IdentityKey& a, const IdentityKey& b) {
  return a.tenant == b.tenant && a.salt == b.salt;
}

Digest fingerprint(const IdentityKey& key) {
  DigestBuilder builder;
  builder.add(key.tenant);
  builder.add(key.salt);
  builder.add_number(static_cast<uint64_t>(key.layers.size()));
  for (const LayerKv& layer : key.layers) {
    builder.add_number(layer.num_kv_heads);
    builder.add_number(layer.head_dim);
    builder.add_number(layer.window_tokens);
    builder.add_number(layer.sink_tokens);
  }
  add(builder, key.rope);
  builder.add_number(static_cast<uint64_t>(key.adapters.size()));
  for (const Digest& adapter : key.adapters) add(builder, adapter);
  builder.add(name(key.codecs));
  builder.add_number(key.activations);
  builder.add_number(key.page_layout);
  builder.add_number(key.numeric_path);
  add(builder, key.rope_table.value());
  add(builder, key.weights.value());
  return builder.finish();
}

uint64_t chain_seed(const IdentityKey& key) {
  DigestBuilder builder;
  builder.add(key.tenant);
  builder.add(key.salt);
  return builder.finish().low;
}

}  // namespace quire::kv
