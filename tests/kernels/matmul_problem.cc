#include "kernels/matmul_problem.h"

#include <cmath>
#include <random>

namespace quire::kernels {

MatmulProblem::MatmulProblem(ElementType type, int64_t rows, int64_t cols, int64_t tokens,
                             uint32_t seed)
    : file_(type, rows, cols, seed),
      packed_(file_.pack()),
      tokens_(tokens),
      activations_(Activations::allocate(tokens, cols).value()) {
  std::mt19937 random(seed + 1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < tokens * cols; ++i) activations_.f32()[i] = normal(random);
  const KernelSet& scalar = *kernels_for(Isa::kScalar);
  if (cols % 32 == 0) scalar.quantize_per_32(activations_.f32(), cols, activations_, 0, tokens);
  if (cols % 256 == 0) scalar.quantize_per_256(activations_.f32(), cols, activations_, 0, tokens);
}

void MatmulProblem::run_into(const KernelSet& set, ActivationPolicy policy, int64_t tokens,
                             Store store, int64_t begin, int64_t end, std::vector<float>& out) {
  const MatmulArgs args{.weights = &packed_,
                        .x = activations_.view(tokens),
                        .policy = policy,
                        .out = out.data(),
                        .out_stride = rows(),
                        .store = store};
  set.matmul(args, begin, end);
}

std::vector<float> MatmulProblem::run(const KernelSet& set, ActivationPolicy policy,
                                      int64_t tokens) {
  std::vector<float> out(static_cast<size_t>(tokens * rows()), std::nanf(""));
  run_into(set, policy, tokens, Store::kReplace, 0, num_panels(), out);
  return out;
}

float MatmulProblem::expected_int8_32(int64_t token, int64_t row) {
  const int64_t cols = file_.cols();
  float acc = 0;
  for (int64_t b = 0; b < cols / 32; ++b) {
    const int8_t* q = activations_.q32() + token * cols + b * 32;
    const ActivationBlock& block = activations_.blocks32()[token * (cols / 32) + b];
    int sum = 0;
    for (int64_t c = 0; c < 32; ++c) sum += file_.element(row, b * 32 + c).code * q[c];
    const FileElement first = file_.element(row, b * 32);
    acc = std::fma(first.d * block.scale, static_cast<float>(sum), acc);
    if (type() == ElementType::Q8_0 || type() == ElementType::IQ4_NL) continue;
    const float m = first.zero == 0 ? first.m : first.d * static_cast<float>(-first.zero);
    acc = std::fma(m, block.sum, acc);
  }
  return acc;
}

float MatmulProblem::expected_int8_256(int64_t token, int64_t row) {
  const int64_t cols = file_.cols();
  float acc = 0;
  for (int64_t b = 0; b < cols / 256; ++b) {
    const int8_t* q = activations_.q256() + token * cols + b * 256;
    const float da = activations_.scales256()[token * (cols / 256) + b];
    int64_t sum = 0;
    int64_t sum_of_mins = 0;
    for (int64_t c = 0; c < 256; ++c) {
      const FileElement e = file_.element(row, b * 256 + c);
      sum += (e.code - e.zero) * e.scale * q[c];
      sum_of_mins += e.min * q[c];
    }
    const FileElement first = file_.element(row, b * 256);
    acc = std::fma(first.d * da, static_cast<float>(sum), acc);
    if (type() == ElementType::Q3_K || type() == ElementType::Q6_K) continue;
    acc = std::fma(-(first.m * da), static_cast<float>(sum_of_mins), acc);
  }
  return acc;
}

float MatmulProblem::expected_f32(int64_t token, int64_t row) {
  float acc = 0;
  for (int64_t c = 0; c < file_.cols(); ++c) {
    acc = std::fma(file_.value(row, c), x(token)[c], acc);
  }
  return acc;
}

std::vector<float> MatmulProblem::expected(ActivationPolicy policy) {
  std::vector<float> out;
  for (int64_t t = 0; t < tokens_; ++t) {
    for (int64_t r = 0; r < rows(); ++r) {
      switch (activation_form(type(), policy)) {
        case ActivationForm::kF32:
          out.push_back(expected_f32(t, r));
          break;
        case ActivationForm::kInt8Per32:
          out.push_back(expected_int8_32(t, r));
          break;
        case ActivationForm::kInt8Per256:
          out.push_back(expected_int8_256(t, r));
          break;
      }
    }
  }
  return out;
}

std::vector<double> MatmulProblem::exact() const {
  std::vector<double> out;
  const float* x = const_cast<Activations&>(activations_).f32();
  for (int64_t t = 0; t < tokens_; ++t) {
    for (int64_t r = 0; r < rows(); ++r) {
      double sum = 0;
      for (int64_t c = 0; c < file_.cols(); ++c) {
        sum += double{file_.value(r, c)} * double{x[t * file_.cols() + c]};
      }
      out.push_back(sum);
    }
  }
  return out;
}

std::vector<double> MatmulProblem::magnitude() const {
  std::vector<double> out;
  const float* x = const_cast<Activations&>(activations_).f32();
  for (int64_t t = 0; t < tokens_; ++t) {
    for (int64_t r = 0; r < rows(); ++r) {
      double sum = 0;
      for (int64_t c = 0; c < file_.cols(); ++c) {
        sum += std::abs(double{file_.value(r, c)} * double{x[t * file_.cols() + c]});
      }
      out.push_back(sum);
    }
  }
  return out;
}

std::vector<const KernelSet*> available_kernels() {
  std::vector<const KernelSet*> sets;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (const KernelSet* set = kernels_for(isa)) sets.push_back(set);
  }
  return sets;
}

}  // namespace quire::kernels
