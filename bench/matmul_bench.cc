// matmul_bench.cc: how fast one instruction set multiplies, in the shapes of SmolLM2-135M.
//
//   quire_matmul_bench [types, e.g. q4_1,q8_0] [isas, e.g. avx2,avx512] [threads] [prefill tokens]
//
// Thirty layers' worth of distinct weights, so that one token reads them from memory as a model
// does; no attention, norms or quantization. Prints the median of the repetitions: 10^9 operations
// (a multiplication and an addition are two) or bytes a second, and the tokens a second that a
// model which did nothing else would give. "head" is a 49,152-row output matrix of the same type,
// one token.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/element_type.h"
#include "base/huge_buffer.h"
#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/kernel_set.h"
#include "kernels/weight_matrix.h"

namespace quire::kernels {
namespace {

constexpr int kLayers = 30;
constexpr int64_t kVocabulary = 49152;
constexpr int64_t kMaxColumns = 1536;

struct Shape {
  int64_t rows;
  int64_t cols;
};

/// q, k and v; output; gate and up; down. K-quants need multiples of 256: 576 becomes 512.
std::vector<Shape> layer_shapes(ElementType type) {
  const int64_t hidden = is_k_quant(type) ? 512 : 576;
  return {{960, hidden}, {576, hidden}, {3072, hidden}, {576, 1536}};
}

WeightMatrix random_matrix(ElementType type, Shape shape, std::mt19937_64& random) {
  std::vector<std::byte> stored(
      *stored_bytes(type, static_cast<uint64_t>(shape.rows * shape.cols)));
  for (std::byte& b : stored) b = static_cast<std::byte>(random() & 0x3F);  // scales stay finite
  return WeightMatrix::pack(
             {.type = type, .rows = shape.rows, .cols = shape.cols, .stored = stored})
      .value();
}

class MatmulBench {
 public:
  MatmulBench(ElementType type, int32_t threads, int64_t tokens) : type_(type), pool_(threads) {
    std::mt19937_64 random(1);
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Shape shape : layer_shapes(type)) {
        layers_.push_back(random_matrix(type, shape, random));
      }
    }
    head_.push_back(random_matrix(type, {kVocabulary, layer_shapes(type)[0].cols}, random));
    for (const int64_t cols : {layer_shapes(type)[0].cols, kMaxColumns}) {
      activations_.push_back(make_activations(tokens, cols, random));
    }
    out_ = HugeBuffer::allocate(sizeof(float) *
                                static_cast<size_t>(std::max(tokens * 3072, kVocabulary)))
               .value();
  }

  void report(const KernelSet& set, int64_t tokens) {
    const auto threads = pool_.num_threads();
    const double prefill = seconds(set, layers_, tokens, 9);
    fmt::print("{:5} {:7} {}T  prefill {:4}: {:7.0f} GOP/s {:7.0f} tok/s\n", info(type_).name,
               set.name, threads, tokens,
               operations(layers_) * static_cast<double>(tokens) / prefill / 1e9,
               static_cast<double>(tokens) / prefill);
    for (const int64_t few : {4, 16}) {
      if (few > tokens) continue;
      const double time = seconds(set, layers_, few, 15);
      fmt::print("{:5} {:7} {}T  batch {:6}: {:7.0f} GOP/s {:7.0f} tok/s\n", info(type_).name,
                 set.name, threads, few,
                 operations(layers_) * static_cast<double>(few) / time / 1e9,
                 static_cast<double>(few) / time);
    }
    const double one = seconds(set, layers_, 1, 31);
    fmt::print("{:5} {:7} {}T  one token   : {:7.1f} GB/s  {:7.0f} tok/s\n", info(type_).name,
               set.name, threads, bytes(layers_) / one / 1e9, 1 / one);
    const double head = seconds(set, head_, 1, 31);
    fmt::print("{:5} {:7} {}T  head        : {:7.1f} GB/s  {:7.0f} tok/s\n", info(type_).name,
               set.name, threads, bytes(head_) / head / 1e9, 1 / head);
    std::fflush(stdout);
  }

 private:
  static Activations make_activations(int64_t tokens, int64_t cols, std::mt19937_64& random) {
    Activations x = Activations::allocate(tokens, cols).value();
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < tokens * cols; ++i) x.f32()[i] = normal(random);
    const KernelSet& set = *select_kernels("").value();
    set.quantize_per_32(x.f32(), cols, x, 0, tokens);
    if (cols % 256 == 0) set.quantize_per_256(x.f32(), cols, x, 0, tokens);
    return x;
  }

  void pass(const KernelSet& set, const std::vector<WeightMatrix>& matrices, int64_t tokens) {
    for (const WeightMatrix& weights : matrices) {
      Activations& x = activations_[weights.cols() == kMaxColumns ? 1 : 0];
      const MatmulArgs args{.weights = &weights,
                            .x = x.view(tokens),
                            .policy = ActivationPolicy::kInt8,
                            .out = out_.as<float>().data(),
                            .out_stride = weights.rows()};
      const int32_t chunks = pool_.num_threads();
      const int64_t panels = weights.num_panels();
      pool_.parallel(chunks, [&](int32_t c) {
        set.matmul(args, panels * c / chunks, panels * (c + 1) / chunks);
      });
    }
  }

  /// The median time of a pass.
  double seconds(const KernelSet& set, const std::vector<WeightMatrix>& matrices, int64_t tokens,
                 int repetitions) {
    std::vector<double> times;
    pass(set, matrices, tokens);
    for (int i = 0; i < repetitions; ++i) {
      const auto start = std::chrono::steady_clock::now();
      pass(set, matrices, tokens);
      times.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  static double operations(const std::vector<WeightMatrix>& matrices) {
    double sum = 0;
    for (const WeightMatrix& w : matrices) sum += 2.0 * static_cast<double>(w.rows() * w.cols());
    return sum;
  }
  static double bytes(const std::vector<WeightMatrix>& matrices) {
    double sum = 0;
    for (const WeightMatrix& w : matrices) sum += static_cast<double>(w.bytes());
    return sum;
  }

  ElementType type_;
  ThreadPool pool_;
  std::vector<WeightMatrix> layers_;
  std::vector<WeightMatrix> head_;
  std::vector<Activations> activations_;  // by columns: hidden, 1536
  HugeBuffer out_;
};

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> out;
  std::stringstream in(list);
  for (std::string word; std::getline(in, word, ',');) out.push_back(word);
  return out;
}

int run(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  const ScopedFloatEnvironment environment;
  const int64_t tokens = std::atoll(argument(4, "512").c_str());
  for (const std::string& type_name : words(argument(1, "q4_1"))) {
    const auto type = element_type_from_name(type_name);
    if (!type) {
      fmt::print(stderr, "no element type is called {}\n", type_name);
      return 2;
    }
    for (const std::string& threads : words(argument(3, "1,2"))) {
      MatmulBench bench(*type, std::atoi(threads.c_str()), tokens);
      for (const std::string& isa : words(argument(2, "avx2,avx512"))) {
        const auto set = select_kernels(isa);
        if (set.ok()) {
          bench.report(**set, tokens);
        } else {
          fmt::print("{}\n", set.error().message);
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) {
  return quire::kernels::run(argc, argv);
}
