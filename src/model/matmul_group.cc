#include "model/matmul_group.h"

#include <algorithm>

namespace quire::model {
namespace {

// Pieces a thread: enough that a thread which lost its processor is helped out, few enough that
// each streams a long run of memory.
constexpr int64_t kChunksPerThread = 4;

// With many rows a pair of panels, which kernels multiply side by side, is work enough for a chunk,
// and the finest division leaves the threads least to wait for.
constexpr int64_t kPanelsOfManyRows = 2;

/// Panels that a thread takes at a time.
int64_t panels_per_chunk(int64_t panels, int64_t rows, int32_t num_threads) {
  if (num_threads == 1) return panels;
  if (rows >= kernels::kManyTokens) return kPanelsOfManyRows;
  const int64_t wanted = num_threads * kChunksPerThread;
  return std::max<int64_t>(1, (panels + wanted - 1) / wanted);
}

}  // namespace

QuantizedForms forms_for(std::initializer_list<const kernels::WeightMatrix*> consumers,
                         kernels::ActivationPolicy policy) {
  QuantizedForms forms;
  for (const kernels::WeightMatrix* weights : consumers) {
    if (weights->empty()) continue;
    switch (kernels::activation_form(weights->type(), policy)) {
      case kernels::ActivationForm::kF32:
        break;
      case kernels::ActivationForm::kInt8Per32:
        forms.per_32 = true;
        break;
      case kernels::ActivationForm::kInt8Per256:
        forms.per_256 = true;
        break;
    }
  }
  return forms;
}

void quantize(const kernels::KernelSet& kernels, QuantizedForms forms, kernels::Activations& x,
              int64_t begin, int64_t end) {
  if (forms.per_32) kernels.quantize_per_32(x.f32(), x.cols(), x, begin, end);
  if (forms.per_256) kernels.quantize_per_256(x.f32(), x.cols(), x, begin, end);
}

void matmul_group(const kernels::KernelSet& kernels, ThreadPool& threads,
                  std::span<const kernels::MatmulArgs> products) {
  int64_t total = 0;
  for (const kernels::MatmulArgs& p : products) total += p.weights->num_panels();
  const int64_t rows = products.empty() ? 0 : products[0].x.num_rows;
  const int64_t per_chunk = panels_per_chunk(total, rows, threads.num_threads());
  const auto chunks = static_cast<int32_t>((total + per_chunk - 1) / per_chunk);
  threads.parallel(chunks, [&](int32_t chunk) {
    const kernels::ScopedFloatEnvironment environment;
    // The panels of all products form one line; a chunk is a piece of it.
    int64_t begin = chunk * per_chunk;
    int64_t left = std::min(per_chunk, total - begin);
    for (const kernels::MatmulArgs& p : products) {
      const int64_t panels = p.weights->num_panels();
      if (begin < panels && left > 0) {
        const int64_t end = std::min(panels, begin + left);
        kernels.matmul(p, begin, end);
        left -= end - begin;
        begin = panels;
      }
      begin -= panels;
    }
  });
}

}  // namespace quire::model
