#include "model/transformer.h"

#include "model/forward_pass.h"

namespace quire::model {

Transformer::Transformer(Parts parts, const TransformerOptions& options,
                         std::unique_ptr<Scratch> scratch)
    : parts_(std::move(parts)), options_(options), scratch_(std::move(scratch)) {}

Transformer::~Transformer() = default;

Result<std::unique_ptr<Transformer>> Transformer::create(Parts parts,
                                                         const TransformerOptions& options) {
  QUIRE_CHECK_EQ(static_cast<int32_t>(parts.places.size()), parts.config->num_layers);
  QUIRE_TRY(auto scratch,
            Scratch::allocate(*parts.config, options.max_rows, options.window_tokens));
  return std::unique_ptr<Transformer>(
      new Transformer(std::move(parts), options, std::move(scratch)));
}

int32_t Transformer::max_rows() const {
  return options_.max_rows;
}

int64_t Transformer::scratch_bytes() const {
  return scratch_->bytes();
}

ForwardPass Transformer::pass_over(const Batch& batch) {
  QUIRE_CHECK_LE(batch.num_rows(), options_.max_rows);
  for (const TokenId token : batch.tokens) {
    QUIRE_CHECK(token.value >= 0 && token.value < parts_.config->vocab,
                "token outside the vocabulary");
  }
  return {{.config = *parts_.config,
           .weights = *parts_.weights,
           .kernels = *parts_.kernels,
           .threads = *parts_.threads,
           .places = parts_.places,
           .policy = options_.policy,
           .max_rows = options_.max_rows,
           .scratch = *scratch_,
           .profile = options_.profile},
          batch};
}

Result<void> Transformer::forward(const Batch& batch, std::span<float> logits) {
  if (batch.num_rows() == 0) return {};
  const kernels::ScopedFloatEnvironment environment;
  return pass_over(batch).run(logits);
}

bool Transformer::forward_some(const Batch& batch, PausedPass& pass,
                               const std::function<bool()>& goes_on, std::span<float> logits) {
  QUIRE_CHECK(batch.stream == nullptr && batch.num_rows() > 0, "a batch on pages in memory");
  const kernels::ScopedFloatEnvironment environment;
  return pass_over(batch).run_some(pass, goes_on, logits);
}

}  // namespace quire::model
