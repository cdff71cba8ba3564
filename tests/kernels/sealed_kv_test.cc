#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/attention_problem.h"
#include "kernels/kernel_set.h"
#include "kernels/paged_sequence.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

constexpr KvCode kCodes[] = {KvCode::kQ8, KvCode::kQ6, KvCode::kQ4, KvCode::kQ3, KvCode::kQ2};

KvGroupShape coded_shape(int32_t num_kv_heads, int32_t head_dim, KvCode key, KvCode value) {
  return {.num_layers = 1,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .key = KvElement::F16,
          .value = KvElement::F16,
          .key_code = key,
          .value_code = value};
}

float levels(KvCode code) {
  return static_cast<float>((1 << kv_code_bits(code)) - 1);
}

TEST(SealKv, KeepsEveryNumberWithinHalfAStepOfItsRow) {
  for (const KvCode code : kCodes) {
    for (const int32_t head_dim : {8, 24, 64, 80, 256}) {
      SCOPED_TRACE(testing::Message() << kv_code_bits(code) << " bits, " << head_dim);
      const KernelSet& set = *available_sets().back();
      PagedSequence sequence(coded_shape(2, head_dim, code, code), 192);
      sequence.store_random(set, 1);
      sequence.seal(set);
      for (int32_t head = 0; head < 2; ++head) {
        for (int32_t d = 0; d < head_dim; ++d) {
          float low = std::numeric_limits<float>::infinity();
          float high = -low;
          for (int32_t p = 64; p < 128; ++p) {
            low = std::min(low, sequence.key(head, p, d));
            high = std::max(high, sequence.key(head, p, d));
          }
          // The step is rounded to f16, 2^-11 of it; all steps of the row may add up at its end.
          const float bound =
              (high - low) / levels(code) * (0.5f + levels(code) * 0x1p-11f) + 1e-6f;
          for (int32_t p = 64; p < 128; ++p) {
            ASSERT_NEAR(sequence.key_for(191, head, p, d), sequence.key(head, p, d), bound);
          }
        }
        for (int32_t p = 64; p < 128; ++p) {
          float low = std::numeric_limits<float>::infinity();
          float high = -low;
          for (int32_t d = 0; d < head_dim; ++d) {
            low = std::min(low, sequence.value(head, p, d));
            high = std::max(high, sequence.value(head, p, d));
          }
          const float bound =
              (high - low) / levels(code) * (0.5f + levels(code) * 0x1p-11f) + 1e-6f;
          for (int32_t d = 0; d < head_dim; ++d) {
            ASSERT_NEAR(sequence.value_for(191, head, p, d), sequence.value(head, p, d), bound);
          }
        }
      }
    }
  }
}

TEST(SealKv, WritesTheSameBytesOnEveryInstructionSet) {
  for (const KvCode key : kCodes) {
    for (const KvCode value : {KvCode::kNone, KvCode::kQ8, KvCode::kQ4, KvCode::kQ3}) {
      const auto sets = available_sets();
      PagedSequence reference(coded_shape(2, 72, key, value), 200);
      reference.store_random(*sets.front(), 2);
      reference.seal(*sets.front());
      for (const KernelSet* set : sets) {
        PagedSequence sequence(coded_shape(2, 72, key, value), 200);
        sequence.store_random(*set, 2);
        sequence.seal(*set);
        EXPECT_TRUE(std::ranges::equal(sequence.sealed_bytes(), reference.sealed_bytes()))
            << set->name << " " << kv_code_bits(key) << "/" << kv_code_bits(value);
      }
    }
  }
}

TEST(SealKv, KeepsRowsOfEqualZeroHugeAndTinyNumbers) {
  for (const KernelSet* set : available_sets()) {
    for (const KvCode code : kCodes) {
      for (const float number : {0.0f, -0.0f, 1.5f, -65504.0f, 6e-8f}) {
        PagedSequence sequence(coded_shape(1, 16, code, code), 130);
        const std::vector<float> rows(130 * 16, number);
        sequence.store(*set, rows, rows);
        sequence.seal(*set);
        EXPECT_EQ(sequence.key_for(129, 0, 70, 3), sequence.key(0, 70, 3));
        EXPECT_EQ(sequence.value_for(129, 0, 70, 3), sequence.value(0, 70, 3));
      }
      PagedSequence wide(coded_shape(1, 16, code, code), 130);
      std::vector<float> rows(130 * 16);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = i / 16 % 2 == i % 2 ? 65504.0f : -65504.0f;
      wide.store(*set, rows, rows);
      wide.seal(*set);
      EXPECT_NEAR(wide.key_for(129, 0, 70, 3), wide.key(0, 70, 3), 65504.0f * 0x1p-9f);
    }
  }
}

TEST(SealedAttention, MatchesItsDefinitionForEveryPairOfCodes) {
  for (const KvCode key :
       {KvCode::kNone, KvCode::kQ8, KvCode::kQ6, KvCode::kQ4, KvCode::kQ3, KvCode::kQ2}) {
    for (const KvCode value :
         {KvCode::kNone, KvCode::kQ8, KvCode::kQ6, KvCode::kQ4, KvCode::kQ3, KvCode::kQ2}) {
      if (key == KvCode::kNone && value == KvCode::kNone) continue;
      SCOPED_TRACE(testing::Message() << kv_code_bits(key) << "/" << kv_code_bits(value));
      for (const int32_t head_dim : {24, 64}) {
        for (const KernelSet* set : available_sets()) {
          PagedSequence sequence(coded_shape(1, head_dim, key, value), 300);
          sequence.store_random(*set, 3);
          sequence.seal(*set);
          const AttentionProblem problem(sequence, 3, 4);
          const std::vector<float> block = problem.run(*set, 250, 16);  // two pages of queries
          for (const int32_t row : {0, 5, 6, 15}) {
            expect_exact(problem, 250 + row, row_of(problem, block, row));
          }
        }
      }
    }
  }
}

TEST(SealedAttention, GivesEveryRowTheSameBitsAloneInABlockAndFromSplits) {
  for (const KvCode code : kCodes) {
    for (const KernelSet* set : available_sets()) {
      SCOPED_TRACE(testing::Message() << kv_code_bits(code) << " " << set->name);
      PagedSequence sequence(coded_shape(1, 48, code, code), 600);
      sequence.store_random(*set, 5);
      sequence.seal(*set);
      const AttentionProblem problem(sequence, 3, 6);
      const std::vector<float> block = problem.run(*set, 0, 600);
      const int32_t step = set->isa == Isa::kScalar ? 97 : 7;
      for (int32_t p = 0; p < 600; p += step) {
        ASSERT_TRUE(same_bits(problem.run(*set, p, 1), row_of(problem, block, p))) << p;
        ASSERT_TRUE(same_bits(problem.run_by_splits(*set, p, 0), row_of(problem, block, p))) << p;
      }
    }
  }
}

TEST(SealedAttention, GivesTheSameBitsOnEveryInstructionSet) {
  for (const KvCode code : kCodes) {
    for (const int32_t head_dim : {8, 24, 64, 256}) {
      SCOPED_TRACE(testing::Message() << kv_code_bits(code) << " " << head_dim);
      const auto sets = available_sets();
      PagedSequence sequence(coded_shape(1, head_dim, code, code), 330);
      sequence.store_random(*sets.front(), 7);
      sequence.seal(*sets.front());
      const AttentionProblem problem(sequence, 5, 8);
      for (const int32_t window : {0, 100}) {
        sequence.view().window = window;
        sequence.view().sinks = window > 0 ? 70 : 0;
        const std::vector<float> reference = problem.run(*sets.front(), 310, 20);
        for (const KernelSet* set : sets) {
          EXPECT_TRUE(same_bits(problem.run(*set, 310, 20), reference)) << set->name;
        }
      }
    }
  }
}

TEST(SealedAttention, NeedsNoOpenFormOfPagesThatOnlyLaterQueriesRead) {
  for (const KernelSet* set : available_sets()) {
    PagedSequence sequence(coded_shape(1, 64, KvCode::kQ8, KvCode::kQ4), 400);
    sequence.store_random(*set, 9);
    sequence.seal(*set);
    const AttentionProblem problem(sequence, 3, 10);
    const std::vector<float> with = problem.run(*set, 390, 10);
    for (PageSpan& page : sequence.pages()) {
      if (page.sealed != nullptr) page.page = nullptr;
    }
    sequence.refresh();
    EXPECT_TRUE(same_bits(problem.run(*set, 390, 10), with));
    EXPECT_TRUE(same_bits(problem.run_by_splits(*set, 390, 0), row_of(problem, with, 0)));
  }
}

TEST(SinkAttention, SeesTheSinksBesideTheWindow) {
  for (const KernelSet* set : available_sets()) {
    for (const int32_t sinks : {1, 4, 63, 64, 65, 130}) {
      for (const int32_t window : {1, 40, 64, 100}) {
        SCOPED_TRACE(testing::Message() << sinks << " sinks, window " << window);
        PagedSequence sequence({.num_layers = 1, .num_kv_heads = 1, .head_dim = 16}, 420);
        sequence.store_random(*set, 11);
        sequence.view().window = window;
        sequence.view().sinks = sinks;
        const AttentionProblem problem(sequence, 2, 12);
        const std::vector<float> out = problem.run(*set, 0, 420);
        for (int32_t p = 0; p < 420; p += 19) expect_exact(problem, p, row_of(problem, out, p));
        for (const int32_t p : {100, 250, 419}) {
          EXPECT_TRUE(same_bits(problem.run(*set, p, 1), row_of(problem, out, p))) << p;
        }
      }
    }
  }
}

TEST(SinkAttention, GivesTheSameBitsWhenPagesBetweenSinksAndWindowAreGone) {
  for (const KernelSet* set : available_sets()) {
    PagedSequence sequence({.num_layers = 1, .num_kv_heads = 1, .head_dim = 64}, 700);
    sequence.store_random(*set, 13);
    sequence.view().window = 100;
    sequence.view().sinks = 10;
    const AttentionProblem problem(sequence, 3, 14);
    const std::vector<float> kept = problem.run(*set, 600, 20);
    // The oldest query sees positions 0 to 9 and from 501 on.
    sequence.pages().erase(sequence.pages().begin() + 1, sequence.pages().begin() + 7);
    sequence.refresh();
    EXPECT_TRUE(same_bits(problem.run(*set, 600, 20), kept));
    EXPECT_TRUE(same_bits(problem.run_by_splits(*set, 600, 0), row_of(problem, kept, 0)));
  }
}

}  // namespace
}  // namespace quire::kernels
