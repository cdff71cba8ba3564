#include "model/matmul_group.h"

#include <algorithm>

namespace quire::model {
namespace {

// Pieces a thread: enough that a thread which lost its processor is helped out, few enough that
// each streams a long run of memory.
constexpr int64_t kChunksPerThread = 4;

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
  const int64_t wanted = threads.num_threads() == 1 ? 1 : threads.num_threads() * kChunksPerThread;
  const int64_t per_chunk = std::max<int64_t>(1, (total + wanted - 1) / wanted);
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
