// kernel_set.h: the compute kernels, one implementation per instruction set, all with the same
// bits.
//
// A KernelSet is a table of plain functions. cpuid chooses it, QUIRE_ISA=scalar|avx2|avx512 forces
// it. Every function works on the part of the work it is given (panels, rows, heads), so that the
// caller may divide the work among threads in any way without changing a bit of any result.
// Functions touch only their arguments and may run on many threads at once; the calling thread's
// MXCSR must be the default (round to nearest, no flush to zero): see ScopedFloatEnvironment.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "kernels/activations.h"
#include "kernels/paged_kv_view.h"
#include "kernels/weight_matrix.h"

namespace quire::kernels {

enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };

/// What a product does with its result.
enum class Store : uint8_t { kReplace, kAdd };

/// out[t, r - first_row] = (kAdd: that +) sum over c of weights[r, c] * x[t, c].
struct MatmulArgs {
  const WeightMatrix* weights;  // [rows, cols]
  ActivationView x;             // [num_rows = tokens, cols], in the form the policy asks for
  ActivationPolicy policy;
  float* out;  // [tokens, out_stride], with room for all rows that are computed
  int64_t out_stride;
  Store store = Store::kReplace;
  int64_t first_row = 0;  // of the matrix, whose result stands at out[0]
};

/// y[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i], over rows of `cols`.
struct RmsNormArgs {
  const float* x;  // [rows, x_stride]
  int64_t x_stride;
  const float* weight;  // [cols]
  float eps;
  int64_t cols;
  float* y;  // [rows, y_stride]; may be x
  int64_t y_stride;
};

/// y[i] = (x[i] - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight[i] + bias[i], over rows.
struct LayerNormArgs {
  const float* x;  // [rows, x_stride]
  int64_t x_stride;
  const float* weight;  // [cols]
  const float* bias;    // [cols]
  float eps;
  int64_t cols;
  float* y;  // [rows, y_stride]; may be x
  int64_t y_stride;
};

/// Rotates the first 2 * half numbers of each head, halves paired (i, i + half):
/// (a, b) -> (a cos - b sin, b cos + a sin). // RoFormer, arXiv:2104.09864; GPT-NeoX pairing
struct RopeArgs {
  float* x;  // [rows, x_stride], heads side by side
  int64_t x_stride;
  int32_t num_heads;
  int32_t head_dim;
  int32_t half;
  const float* cos;  // [rows, half]
  const float* sin;  // [rows, half]
};

/// Writes rows of K and V into the pages of their positions, rounded to the pages' element types
/// (to nearest even, finite values saturating at the type's largest).
struct StoreKvArgs {
  const PagedKvView* kv;
  int32_t layer;           // index within the group
  int32_t first_position;  // of row 0; rows are consecutive
  const float* k;          // [rows, kv_stride], kv heads side by side
  const float* v;          // [rows, kv_stride]
  int64_t kv_stride;
};

/// Encodes one full page of one layer from its open into its sealed form, as KvGroupShape's codes
/// say. Sides with a code are open in f16. Requires both forms and head_dim <= kMaxSealedHeadDim.
struct SealKvArgs {
  const PagedKvView* kv;
  int32_t layer;  // index within the group
  int32_t page;   // index in kv->pages
};

/// out = softmax(cap(scale * q K^T)) V for consecutive positions of one sequence, the KV rows of
/// which are in the pages already; cap(x) = soft_cap * tanh(x / soft_cap), or x where soft_cap is
/// 0. Masked by causality and the view's window.
struct AttentionArgs {
  const PagedKvView* kv;
  int32_t layer;           // index within the group
  int32_t first_position;  // of row 0; rows are consecutive
  int32_t num_heads;       // query heads; num_heads / num_kv_heads share a kv head
  float scale;
  const float* q;  // [rows, q_stride], rotated, heads side by side
  int64_t q_stride;
  float* out;  // [rows, out_stride]
  int64_t out_stride;
  float soft_cap = 0.0f;  // of the scores // Gemma 2, arXiv:2408.00118
};

/// Pages per split: the online softmax starts afresh in every split and the splits are merged in
/// order, in prefill and decode alike. Split s covers positions [256 s, 256 s + 256).
inline constexpr int32_t kSplitPages = 4;
inline constexpr int32_t kSplitTokens = kSplitPages * kPageSlots;

/// Floats that attention_split writes for one row and one query head: max, denominator, output.
QUIRE_ALWAYS_INLINE constexpr int64_t attention_partial_floats(int32_t head_dim) {
  return int64_t{head_dim} + 16;
}

/// Tokens from which products take panels in pairs and unpack them first (where that pays): callers
/// divide the panels evenly, two by two.
inline constexpr int64_t kManyTokens = 48;

struct KernelSet {
  Isa isa;
  std::string_view name;

  /// Panels [panel_begin, panel_end) for all tokens.
  void (*matmul)(const MatmulArgs&, int64_t panel_begin, int64_t panel_end);
  /// Row `row` of the matrix as floats, exactly as the format defines them. // out: [cols]
  void (*dequantize_row)(const WeightMatrix&, int64_t row, float* out);
  /// f32 rows [row_begin, row_end) of `x` into the int8 form per 32 (cols a multiple of 32).
  void (*quantize_per_32)(const float* x, int64_t x_stride, Activations& out, int64_t row_begin,
                          int64_t row_end);
  /// The same for columns [column_begin, column_end), multiples of 32, of those rows. // x: at the
  /// first of these rows and columns
  void (*quantize_columns_per_32)(const float* x, int64_t x_stride, Activations& out,
                                  int64_t row_begin, int64_t row_end, int64_t column_begin,
                                  int64_t column_end);
  /// The same per 256 (cols a multiple of 256).
  void (*quantize_per_256)(const float* x, int64_t x_stride, Activations& out, int64_t row_begin,
                           int64_t row_end);

  void (*rms_norm)(const RmsNormArgs&, int64_t row_begin, int64_t row_end);
  void (*layer_norm)(const LayerNormArgs&, int64_t row_begin, int64_t row_end);
  void (*rope)(const RopeArgs&, int64_t row_begin, int64_t row_end);
  /// out[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)); out may be gate.
  void (*swiglu)(const float* gate, const float* up, float* out, int64_t count);
  /// out[i] = gelu_tanh(gate[i]) * up[i]; out may be gate.
  void (*geglu_tanh)(const float* gate, const float* up, float* out, int64_t count);
  /// out[i] = x[i] / 2 (1 + tanh(sqrt(2 / pi) (x[i] + 0.044715 x[i]^3))); out may be x.
  void (*gelu_tanh)(const float* x, float* out, int64_t count);
  /// out[i] = x[i] / 2 (1 + erf(x[i] / sqrt 2)); out may be x.
  void (*gelu_erf)(const float* x, float* out, int64_t count);
  /// y[i] = y[i] + x[i].
  void (*add)(const float* x, float* y, int64_t count);
  /// y[i] = y[i] * factor.
  void (*scale)(float* y, float factor, int64_t count);
  /// y[i] = y[i] + factor * x[i], rounded once.
  void (*add_scaled)(const float* x, float factor, float* y, int64_t count);
  /// y[i] = 1 / (1 + exp(-y[i])).
  void (*sigmoid)(float* y, int64_t count);
  /// y[i] = cap * tanh(y[i] / cap), cap > 0.
  void (*soft_cap)(float* y, float cap, int64_t count);
  /// y[i] = exp(y[i]) / sum of exp(y), count > 0.
  void (*softmax)(float* y, int64_t count);

  void (*store_kv)(const StoreKvArgs&, int64_t row_begin, int64_t row_end);
  /// K and V of kv heads [kv_head_begin, kv_head_end).
  void (*seal_kv)(const SealKvArgs&, int32_t kv_head_begin, int32_t kv_head_end);
  /// All splits of one kv head for rows [row_begin, row_end): writes args.out.
  void (*attention)(const AttentionArgs&, int32_t kv_head, int64_t row_begin, int64_t row_end);
  /// One split of one kv head for rows [row_begin, row_end): writes the partial result of each
  /// query head of the group, also of rows that see nothing of the split.
  /// // partial: [rows, num_heads / num_kv_heads, attention_partial_floats(head_dim)]
  void (*attention_split)(const AttentionArgs&, int32_t kv_head, int64_t row_begin, int64_t row_end,
                          int32_t split, float* partial);
  /// Merges the partial results of `num_splits` ascending splits, all that the row sees, and writes
  /// args.out of that row and kv head: the same bits as `attention`. `partials` is the row's place
  /// in the first split's result; those of the others follow `split_stride` floats apart.
  /// // partials: [num_splits, group, attention_partial_floats]
  void (*attention_merge)(const AttentionArgs&, int32_t kv_head, int64_t row, int32_t num_splits,
                          const float* partials, int64_t split_stride);
};

/// The set for `isa`, or nullptr if this machine or build does not have it.
const KernelSet* kernels_for(Isa isa);

/// The fastest set of this machine, or what QUIRE_ISA (`forced`, may be empty) names.
Result<const KernelSet*> select_kernels(std::string_view forced);

/// Sets the default floating-point environment (MXCSR) for the life of the object: another library
/// may have switched this thread to flush denormals, which would change bits.
class ScopedFloatEnvironment {
 public:
  ScopedFloatEnvironment();
  ~ScopedFloatEnvironment();
  ScopedFloatEnvironment(const ScopedFloatEnvironment&) = delete;
  ScopedFloatEnvironment& operator=(const ScopedFloatEnvironment&) = delete;

 private:
  unsigned saved_;
};

}  // namespace quire::kernels
