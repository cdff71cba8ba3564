#include "model/transformer.h"

#include <algorithm>
#include <cstring>

#include "model/attention_plan.h"
#include "model/matmul_group.h"
#include "model/rope.h"
#include "model/seal_plan.h"

namespace quire::model {

using kernels::Activations;
using kernels::KernelSet;

namespace {

// Rows that one chunk of a row-wise step takes: norms and rotations are short.
constexpr int32_t kRowsPerChunk = 8;

Result<HugeBuffer> floats(int64_t count) {
  return HugeBuffer::allocate(static_cast<size_t>(count) * sizeof(float));
}

}  // namespace

struct Transformer::Scratch {
  HugeBuffer stream;      // [max_rows, hidden]: the residual stream
  HugeBuffer q, k, v;     // [max_rows, q_width], [max_rows, kv_width]
  HugeBuffer branch;      // [max_rows, hidden]: what a block adds, before its post-norm
  HugeBuffer gate, up;    // [max_rows, ffn]
  HugeBuffer cos, sin;    // [ropes, max_rows, half]
  Activations normed;     // [max_rows, hidden]
  Activations attended;   // [max_rows, q_width]
  Activations activated;  // [max_rows, ffn]
  HugeBuffer partials;    // attention's partial results; grows with the context
  std::vector<Rope> ropes;
  std::vector<int32_t> positions;  // [num_rows] of the batch at hand

  static Result<std::unique_ptr<Scratch>> allocate(const ModelConfig& c, int64_t rows) {
    auto s = std::make_unique<Scratch>();
    for (const RopeConfig& rope : c.ropes) s->ropes.emplace_back(rope);
    QUIRE_TRY(s->stream, floats(rows * c.hidden));
    QUIRE_TRY(s->q, floats(rows * c.q_width()));
    QUIRE_TRY(s->k, floats(rows * c.kv_width()));
    QUIRE_TRY(s->v, floats(rows * c.kv_width()));
    QUIRE_TRY(s->branch, floats(rows * c.hidden));
    QUIRE_TRY(s->gate, floats(rows * c.ffn));
    QUIRE_TRY(s->up, floats(rows * c.ffn));
    const auto angles = static_cast<int64_t>(c.ropes.size()) * rows * (c.head_dim / 2);
    QUIRE_TRY(s->cos, floats(angles));
    QUIRE_TRY(s->sin, floats(angles));
    QUIRE_TRY(s->normed, Activations::allocate(rows, c.hidden));
    QUIRE_TRY(s->attended, Activations::allocate(rows, c.q_width()));
    QUIRE_TRY(s->activated, Activations::allocate(rows, c.ffn));
    return s;
  }

  int64_t bytes() const {
    int64_t total = normed.bytes() + attended.bytes() + activated.bytes();
    for (const HugeBuffer* b : {&stream, &q, &k, &v, &branch, &gate, &up, &cos, &sin, &partials}) {
      total += static_cast<int64_t>(b->size());
    }
    return total;
  }
};

/// One forward pass: the named steps of a layer, each over all rows of the batch.
class Transformer::Pass {
 public:
  Pass(Transformer& t, const Batch& batch)
      : c_(*t.parts_.config),
        w_(*t.parts_.weights),
        kernels_(*t.parts_.kernels),
        threads_(*t.parts_.threads),
        places_(t.parts_.places),
        policy_(t.options_.policy),
        max_rows_(t.options_.max_rows),
        s_(*t.scratch_),
        batch_(batch) {}

  Result<void> run(std::span<float> logits) {
    embed();
    prepare_rotations();
    plan_attentions();
    for (int32_t layer = 0; layer < c_.num_layers; ++layer) {
      if (batch_.stream != nullptr) QUIRE_TRY_VOID(batch_.stream->enter(layer));
      attention_block(layer);
      ffn_block(w_.layers[static_cast<size_t>(layer)]);
    }
    project_logits(logits);
    return {};
  }

 private:
  float* stream() { return s_.stream.as<float>().data(); }

  /// Calls step(row_begin, row_end) over all rows, on all threads.
  template <class Step>
  void for_rows(int32_t num_rows, Step&& step) {
    const int32_t chunks = (num_rows + kRowsPerChunk - 1) / kRowsPerChunk;
    threads_.parallel(chunks, [&](int32_t chunk) {
      const kernels::ScopedFloatEnvironment environment;
      const int32_t begin = chunk * kRowsPerChunk;
      step(begin, std::min(begin + kRowsPerChunk, num_rows));
    });
  }

  void embed() {
    const float scale = c_.embedding_scale;
    for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
      for (int32_t row = begin; row < end; ++row) {
        float* out = stream() + int64_t{row} * c_.hidden;
        const TokenId token = batch_.tokens[static_cast<size_t>(row)];
        kernels_.dequantize_row(w_.embedding, token.value, out);
        if (scale != 1.0f) kernels_.scale(out, scale, c_.hidden);
      }
    });
  }

  float* angles(HugeBuffer& buffer, int32_t rope) {
    return buffer.as<float>().data() + int64_t{rope} * max_rows_ * (c_.head_dim / 2);
  }

  void prepare_rotations() {
    s_.positions.clear();
    for (const BatchSequence& part : batch_.sequences) {
      for (int32_t i = 0; i < part.num_rows; ++i) s_.positions.push_back(part.first_position + i);
    }
    for (int32_t r = 0; r < static_cast<int32_t>(s_.ropes.size()); ++r) {
      const Rope& rope = s_.ropes[static_cast<size_t>(r)];
      const size_t half = static_cast<size_t>(rope.half());
      for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
        const size_t count = static_cast<size_t>(end - begin);
        const size_t at = static_cast<size_t>(begin) * half;
        rope.angles({s_.positions.data() + begin, count}, {angles(s_.cos, r) + at, count * half},
                    {angles(s_.sin, r) + at, count * half});
      });
    }
  }

  /// One plan a layer group: its layers share a window.
  void plan_attentions() {
    for (size_t group = 0; group < batch_.sequences.front().groups.size(); ++group) {
      const kernels::PagedKvView& kv = batch_.sequences.front().groups[group];
      plans_.push_back(plan_attention(batch_.sequences, {.num_heads = c_.num_heads,
                                                         .num_kv_heads = c_.num_kv_heads,
                                                         .window_tokens = kv.window,
                                                         .sink_tokens = kv.sinks,
                                                         .num_threads = threads_.num_threads()}));
      seals_.push_back(plan_seals(batch_.sequences, group));
    }
  }

  /// Normalises rows of the stream and quantizes them in the forms that `consumers` need.
  void norm_and_quantize(const std::vector<float>& norm,
                         std::initializer_list<const kernels::WeightMatrix*> consumers) {
    const QuantizedForms forms = forms_for(consumers, policy_);
    for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
      kernels_.rms_norm(norm_args(stream(), norm, s_.normed.f32(), c_.hidden), begin, end);
      quantize(kernels_, forms, s_.normed, begin, end);
    });
  }

  kernels::RmsNormArgs norm_args(const float* x, const std::vector<float>& weight, float* y,
                                 int64_t cols) const {
    return {.x = x,
            .x_stride = cols,
            .weight = weight.data(),
            .eps = c_.norm_eps,
            .cols = cols,
            .y = y,
            .y_stride = cols};
  }

  kernels::MatmulArgs product(const kernels::WeightMatrix& weights, Activations& x, float* out,
                              kernels::Store store) {
    return {.weights = &weights,
            .x = x.view(batch_.num_rows()),
            .policy = policy_,
            .out = out,
            .out_stride = weights.rows(),
            .store = store};
  }

  void attention_block(int32_t layer) {
    const LayerWeights& w = w_.layers[static_cast<size_t>(layer)];
    norm_and_quantize(w.attention_norm, {&w.query, &w.key, &w.value});
    matmul_group(kernels_, threads_,
                 {product(w.query, s_.normed, s_.q.as<float>().data(), kernels::Store::kReplace),
                  product(w.key, s_.normed, s_.k.as<float>().data(), kernels::Store::kReplace),
                  product(w.value, s_.normed, s_.v.as<float>().data(), kernels::Store::kReplace)});
    rotate_and_store(layer, w);
    seal_full_pages(layer);
    attend(layer);
    quantize_rows(s_.attended, w.attention_out);
    add_branch(w.attention_out, s_.attended, w.post_attention_norm);
  }

  void ffn_block(const LayerWeights& w) {
    norm_and_quantize(w.ffn_norm, {&w.gate, &w.up});
    float* gate = s_.gate.as<float>().data();
    float* up = s_.up.as<float>().data();
    matmul_group(kernels_, threads_,
                 {product(w.gate, s_.normed, gate, kernels::Store::kReplace),
                  product(w.up, s_.normed, up, kernels::Store::kReplace)});
    const QuantizedForms forms = forms_for({&w.down}, policy_);
    const auto activate =
        c_.activation == FfnActivation::kSwiGlu ? kernels_.swiglu : kernels_.geglu_tanh;
    for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
      for (int64_t row = begin; row < end; ++row) {
        activate(gate + row * c_.ffn, up + row * c_.ffn, s_.activated.f32() + row * c_.ffn, c_.ffn);
      }
      quantize(kernels_, forms, s_.activated, begin, end);
    });
    add_branch(w.down, s_.activated, w.post_ffn_norm);
  }

  void quantize_rows(Activations& x, const kernels::WeightMatrix& consumer) {
    const QuantizedForms forms = forms_for({&consumer}, policy_);
    if (forms.none()) return;
    for_rows(batch_.num_rows(),
             [&](int32_t begin, int32_t end) { quantize(kernels_, forms, x, begin, end); });
  }

  /// stream += weights x, with a norm of the product in between if the model has one.
  void add_branch(const kernels::WeightMatrix& weights, Activations& x,
                  const std::vector<float>& post_norm) {
    if (post_norm.empty()) {
      matmul_group(kernels_, threads_, {product(weights, x, stream(), kernels::Store::kAdd)});
      return;
    }
    float* branch = s_.branch.as<float>().data();
    matmul_group(kernels_, threads_, {product(weights, x, branch, kernels::Store::kReplace)});
    for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
      kernels_.rms_norm(norm_args(branch, post_norm, branch, c_.hidden), begin, end);
      const int64_t at = int64_t{begin} * c_.hidden;
      kernels_.add(branch + at, stream() + at, int64_t{end - begin} * c_.hidden);
    });
  }

  void rotate_and_store(int32_t layer, const LayerWeights& w) {
    const KvPlace place = places_[static_cast<size_t>(layer)];
    const int32_t rope = c_.layers[static_cast<size_t>(layer)].rope;
    int32_t first_row = 0;
    for (const BatchSequence& part : batch_.sequences) {
      const int32_t offset = first_row;
      for_rows(part.num_rows, [&](int32_t begin, int32_t end) {
        rotate(w, rope, offset + begin, offset + end);
        const kernels::StoreKvArgs store{
            .kv = &part.groups[static_cast<size_t>(place.group)],
            .layer = place.index,
            .first_position = part.first_position,
            .k = s_.k.as<float>().data() + offset * c_.kv_width(),
            .v = s_.v.as<float>().data() + offset * c_.kv_width(),
            .kv_stride = c_.kv_width(),
        };
        kernels_.store_kv(store, begin, end);
      });
      first_row += part.num_rows;
    }
  }

  /// Norms (where the model has them) and rotates q and k of rows [begin, end) of the batch.
  void rotate(const LayerWeights& w, int32_t rope, int32_t begin, int32_t end) {
    float* q = s_.q.as<float>().data();
    float* k = s_.k.as<float>().data();
    if (c_.qk_norm) {
      // Heads are side by side: each is a row of head_dim.
      kernels_.rms_norm(norm_args(q, w.query_norm, q, c_.head_dim), int64_t{begin} * c_.num_heads,
                        int64_t{end} * c_.num_heads);
      kernels_.rms_norm(norm_args(k, w.key_norm, k, c_.head_dim), int64_t{begin} * c_.num_kv_heads,
                        int64_t{end} * c_.num_kv_heads);
    }
    kernels::RopeArgs args{.x = q,
                           .x_stride = c_.q_width(),
                           .num_heads = c_.num_heads,
                           .head_dim = c_.head_dim,
                           .half = s_.ropes[static_cast<size_t>(rope)].half(),
                           .cos = angles(s_.cos, rope),
                           .sin = angles(s_.sin, rope)};
    kernels_.rope(args, begin, end);
    args.x = k;
    args.x_stride = c_.kv_width();
    args.num_heads = c_.num_kv_heads;
    kernels_.rope(args, begin, end);
  }

  /// Encodes the pages that this batch fills, before a query behind them reads them.
  void seal_full_pages(int32_t layer) {
    const KvPlace place = places_[static_cast<size_t>(layer)];
    const std::vector<PageSeal>& seals = seals_[static_cast<size_t>(place.group)];
    const auto count = static_cast<int32_t>(seals.size()) * c_.num_kv_heads;
    threads_.parallel(count, [&](int32_t i) {
      const kernels::ScopedFloatEnvironment environment;
      const PageSeal& seal = seals[static_cast<size_t>(i / c_.num_kv_heads)];
      const BatchSequence& part = batch_.sequences[static_cast<size_t>(seal.sequence)];
      const int32_t head = i % c_.num_kv_heads;
      kernels_.seal_kv({.kv = &part.groups[static_cast<size_t>(place.group)],
                        .layer = place.index,
                        .page = seal.page},
                       head, head + 1);
    });
  }

  void attend(int32_t layer) {
    const KvPlace place = places_[static_cast<size_t>(layer)];
    const AttentionPlan& plan = plans_[static_cast<size_t>(place.group)];
    const std::vector<kernels::AttentionArgs> args = attention_args(place);
    const int64_t group_floats =
        int64_t{c_.num_heads / c_.num_kv_heads} * kernels::attention_partial_floats(c_.head_dim);
    float* partials = partials_for(plan.num_partials * group_floats);
    threads_.parallel(static_cast<int32_t>(plan.tasks.size()), [&](int32_t i) {
      const kernels::ScopedFloatEnvironment environment;
      const AttentionTask& task = plan.tasks[static_cast<size_t>(i)];
      const kernels::AttentionArgs& a = args[static_cast<size_t>(task.sequence)];
      if (task.split < 0) {
        kernels_.attention(a, task.kv_head, task.row_begin, task.row_end);
      } else {
        kernels_.attention_split(a, task.kv_head, task.row_begin, task.split,
                                 partials + task.partial * group_floats);
      }
    });
    for (const AttentionMerge& merge : plan.merges) {
      kernels_.attention_merge(args[static_cast<size_t>(merge.sequence)], merge.kv_head, merge.row,
                               merge.num_splits, partials + merge.partial * group_floats);
    }
  }

  /// One for each sequence of the batch.
  std::vector<kernels::AttentionArgs> attention_args(KvPlace place) {
    std::vector<kernels::AttentionArgs> args;
    int64_t row = 0;
    for (size_t i = 0; i < batch_.sequences.size(); ++i) {
      const BatchSequence& part = batch_.sequences[i];
      const kernels::PagedKvView* kv = batch_.stream != nullptr
                                           ? &batch_.stream->view(static_cast<int32_t>(i))
                                           : &part.groups[static_cast<size_t>(place.group)];
      args.push_back({.kv = kv,
                      .layer = place.index,
                      .first_position = part.first_position,
                      .num_heads = c_.num_heads,
                      .scale = c_.attention_scale,
                      .q = s_.q.as<float>().data() + row * c_.q_width(),
                      .q_stride = c_.q_width(),
                      .out = s_.attended.f32() + row * c_.q_width(),
                      .out_stride = c_.q_width()});
      row += part.num_rows;
    }
    return args;
  }

  float* partials_for(int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    if (s_.partials.size() < bytes) {
      Result<HugeBuffer> grown = HugeBuffer::allocate(bytes * 2);
      QUIRE_CHECK(grown.ok(), "no address space for a few attention partials");
      s_.partials = std::move(*grown);
    }
    return s_.partials.as<float>().data();
  }

  void project_logits(std::span<float> logits) {
    const auto wanted = static_cast<int32_t>(batch_.logit_rows.size());
    if (wanted == 0) return;
    const kernels::WeightMatrix& head = w_.output_head();
    QUIRE_CHECK_LE(static_cast<size_t>(wanted) * static_cast<size_t>(head.rows()), logits.size());
    const QuantizedForms forms = forms_for({&head}, policy_);
    for_rows(wanted, [&](int32_t begin, int32_t end) {
      for (int32_t i = begin; i < end; ++i) {
        const int64_t row = batch_.logit_rows[static_cast<size_t>(i)];
        float* out = s_.normed.f32() + int64_t{i} * c_.hidden;
        kernels_.rms_norm(norm_args(stream() + row * c_.hidden, w_.output_norm, out, c_.hidden), 0,
                          1);
      }
      quantize(kernels_, forms, s_.normed, begin, end);
    });
    kernels::MatmulArgs args = product(head, s_.normed, logits.data(), kernels::Store::kReplace);
    args.x = s_.normed.view(wanted);
    matmul_group(kernels_, threads_, {args});
  }

  const ModelConfig& c_;
  const Weights& w_;
  const KernelSet& kernels_;
  ThreadPool& threads_;
  const std::vector<KvPlace>& places_;
  const kernels::ActivationPolicy policy_;
  const int32_t max_rows_;
  Scratch& s_;
  const Batch& batch_;
  std::vector<AttentionPlan> plans_;          // [layer groups]
  std::vector<std::vector<PageSeal>> seals_;  // [layer groups]
};

Transformer::Transformer(Parts parts, const TransformerOptions& options,
                         std::unique_ptr<Scratch> scratch)
    : parts_(std::move(parts)), options_(options), scratch_(std::move(scratch)) {}

Transformer::~Transformer() = default;

Result<std::unique_ptr<Transformer>> Transformer::create(Parts parts,
                                                         const TransformerOptions& options) {
  QUIRE_CHECK_EQ(static_cast<int32_t>(parts.places.size()), parts.config->num_layers);
  QUIRE_TRY(auto scratch, Scratch::allocate(*parts.config, options.max_rows));
  return std::unique_ptr<Transformer>(
      new Transformer(std::move(parts), options, std::move(scratch)));
}

int32_t Transformer::max_rows() const {
  return options_.max_rows;
}

int64_t Transformer::scratch_bytes() const {
  return scratch_->bytes();
}

Result<void> Transformer::forward(const Batch& batch, std::span<float> logits) {
  QUIRE_CHECK_LE(batch.num_rows(), options_.max_rows);
  for (const TokenId token : batch.tokens) {
    QUIRE_CHECK(token.value >= 0 && token.value < parts_.config->vocab,
                "token outside the vocabulary");
  }
  if (batch.num_rows() == 0) return {};
  const kernels::ScopedFloatEnvironment environment;
  return Pass(*this, batch).run(logits);
}

}  // namespace quire::model
