#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/kernel_set.h"
#include "kernels/paged_sequence.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

KvGroupShape shape_of(int32_t num_kv_heads, int32_t head_dim, KvElement key = KvElement::F16,
                      KvElement value = KvElement::F16) {
  return {.num_layers = 1,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .key = key,
          .value = value};
}

TEST(Attention, MatchesItsDefinitionForEveryHeadDimension) {
  for (const int32_t head_dim : {8, 16, 24, 32, 64, 72, 80, 96, 128, 256}) {
    SCOPED_TRACE(head_dim);
    for (const KernelSet* set : available_sets()) {
      SCOPED_TRACE(set->name);
      PagedSequence sequence(shape_of(2, head_dim), 300);
      sequence.store_random(*set, 1);
      const AttentionProblem problem(sequence, 4, 2);
      const std::vector<float> out = problem.run(*set, 290, 10);
      for (const int32_t row : {0, 9}) expect_exact(problem, 290 + row, row_of(problem, out, row));
    }
  }
}

TEST(Attention, MatchesItsDefinitionForEveryPairOfElementTypes) {
  for (const KvElement key : {KvElement::F32, KvElement::F16, KvElement::BF16}) {
    for (const KvElement value : {KvElement::F32, KvElement::F16, KvElement::BF16}) {
      for (const int32_t head_dim : {24, 64}) {
        SCOPED_TRACE(testing::Message() << int(key) << " " << int(value) << " " << head_dim);
        for (const KernelSet* set : available_sets()) {
          PagedSequence sequence(shape_of(1, head_dim, key, value), 200);
          sequence.store_random(*set, 3);
          const AttentionProblem problem(sequence, 3, 4);
          const std::vector<float> block = problem.run(*set, 184, 16);  // converts its pages
          expect_exact(problem, 190, row_of(problem, block, 6));
          const std::vector<float> one = problem.run(*set, 190, 1);  // reads them directly
          EXPECT_TRUE(same_bits(one, row_of(problem, block, 6)));
        }
      }
    }
  }
}

TEST(Attention, MatchesItsDefinitionForEveryGroupSize) {
  for (int32_t group = 1; group <= 16; ++group) {
    SCOPED_TRACE(group);
    for (const KernelSet* set : available_sets()) {
      PagedSequence sequence(shape_of(2, 32), 130);
      sequence.store_random(*set, 5);
      const AttentionProblem problem(sequence, 2 * group, 6);
      const std::vector<float> out = problem.run(*set, 126, 4);
      for (const int32_t row : {0, 3}) expect_exact(problem, 126 + row, row_of(problem, out, row));
    }
  }
}

TEST(Attention, MatchesItsDefinitionAtEveryPosition) {
  const KernelSet& set = *available_sets().back();
  PagedSequence sequence(shape_of(1, 16), 700);
  sequence.store_random(set, 7);
  const AttentionProblem problem(sequence, 2, 8);
  const std::vector<float> out = problem.run(set, 0, 700);
  for (int32_t p = 0; p < 700; ++p) expect_exact(problem, p, row_of(problem, out, p));
}

TEST(Attention, GivesEveryRowTheSameBitsAloneInABlockAndFromSplits) {
  for (const KernelSet* set : available_sets()) {
    SCOPED_TRACE(set->name);
    PagedSequence sequence(shape_of(1, 80), 700);
    sequence.store_random(*set, 9);
    const AttentionProblem problem(sequence, 3, 10);
    const std::vector<float> block = problem.run(*set, 0, 700);
    const int32_t step = set->isa == Isa::kScalar ? 41 : 1;
    for (int32_t p = 0; p < 700; p += step) {
      ASSERT_TRUE(same_bits(problem.run(*set, p, 1), row_of(problem, block, p))) << p;
      ASSERT_TRUE(same_bits(problem.run_by_splits(*set, p, 0), row_of(problem, block, p))) << p;
    }
  }
}

TEST(Attention, GivesTheSameBitsHoweverRowsAreDivided) {
  const KernelSet& set = *available_sets().back();
  PagedSequence sequence(shape_of(2, 64), 400);
  sequence.store_random(set, 11);
  const AttentionProblem problem(sequence, 10, 12);
  const std::vector<float> whole = problem.run(set, 0, 400);
  std::mt19937 generator(13);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<float> parts(whole.size());
    const AttentionArgs args = problem.args(0, parts);
    for (int32_t head = 0; head < 2; ++head) {
      for (int64_t row = 0; row < 400;) {
        const int64_t end = std::min<int64_t>(400, row + 1 + generator() % 60);
        set.attention(args, head, row, end);
        row = end;
      }
    }
    ASSERT_TRUE(same_bits(parts, whole));
  }
}

TEST(Attention, GivesTheSameBitsOnEveryInstructionSet) {
  for (const int32_t head_dim : {8, 24, 64, 80, 256}) {
    for (const KvElement element : {KvElement::F32, KvElement::F16, KvElement::BF16}) {
      SCOPED_TRACE(testing::Message() << head_dim << " " << int(element));
      const std::vector<const KernelSet*> sets = available_sets();
      PagedSequence sequence(shape_of(1, head_dim, element, element), 330);
      sequence.store_random(*sets.front(), 14);
      const AttentionProblem problem(sequence, 5, 15);
      for (const int32_t window : {0, 100}) {
        sequence.view().window = window;
        const std::vector<float> reference = problem.run(*sets.front(), 317, 13);
        const std::vector<float> splits = problem.run_by_splits(*sets.front(), 320, 0);
        for (const KernelSet* set : sets) {
          EXPECT_TRUE(same_bits(problem.run(*set, 317, 13), reference)) << set->name;
          EXPECT_TRUE(same_bits(problem.run_by_splits(*set, 320, 0), splits)) << set->name;
        }
      }
    }
  }
}

TEST(Attention, CapsItsScoresSoftly) {
  for (const KernelSet* set : available_sets()) {
    SCOPED_TRACE(set->name);
    PagedSequence sequence(shape_of(2, 24), 300, 0xFF);  // what is unfilled is NaN
    sequence.store_random(*set, 33);
    AttentionProblem problem(sequence, 6, 34);
    const std::vector<float> without = problem.run(*set, 260, 40);
    problem.soft_cap = 1.5f;
    for (const int32_t window : {0, 100}) {
      sequence.view().window = window;
      const std::vector<float> out = problem.run(*set, 260, 40);
      for (const int32_t row : {0, 17, 39}) {
        expect_exact(problem, 260 + row, row_of(problem, out, row));
        EXPECT_TRUE(same_bits(problem.run(*set, 260 + row, 1), row_of(problem, out, row)));
        EXPECT_TRUE(
            same_bits(problem.run_by_splits(*set, 260 + row, 0), row_of(problem, out, row)));
      }
      EXPECT_FALSE(same_bits(out, without)) << "the cap changes nothing";
      EXPECT_TRUE(same_bits(problem.run(*available_sets().front(), 260, 40), out));
    }
  }
}

TEST(Attention, SeesOnlyTheWindow) {
  for (const int32_t window : {1, 2, 63, 64, 65, 200, 512, 1000}) {
    SCOPED_TRACE(window);
    const KernelSet& set = *available_sets().back();
    PagedSequence sequence(shape_of(1, 32), 700);
    sequence.store_random(set, 16);
    sequence.view().window = window;
    const AttentionProblem problem(sequence, 2, 17);
    const std::vector<float> out = problem.run(set, 0, 700);
    for (int32_t p = 0; p < 700; p += 23) expect_exact(problem, p, row_of(problem, out, p));
  }
}

TEST(Attention, GivesTheSameBitsWhetherPagesBehindTheWindowWereFreed) {
  for (const KernelSet* set : available_sets()) {
    SCOPED_TRACE(set->name);
    PagedSequence sequence(shape_of(1, 64), 700);
    sequence.store_random(*set, 18);
    sequence.view().window = 150;
    const AttentionProblem problem(sequence, 3, 19);
    const std::vector<float> kept = problem.run(*set, 600, 20);

    // The oldest query sees positions from 451 on: pages 0 to 6 are behind it.
    sequence.pages().erase(sequence.pages().begin(), sequence.pages().begin() + 7);
    sequence.refresh();
    EXPECT_TRUE(same_bits(problem.run(*set, 600, 20), kept));
    EXPECT_TRUE(same_bits(problem.run_by_splits(*set, 600, 0), row_of(problem, kept, 0)));
    EXPECT_TRUE(same_bits(problem.run_by_splits(*set, 600, 1), row_of(problem, kept, 0)));
  }
}

TEST(Attention, NeverSeesWhatLiesInUnfilledSlots) {
  for (const KvElement element : {KvElement::F32, KvElement::F16, KvElement::BF16}) {
    for (const KernelSet* set : available_sets()) {
      SCOPED_TRACE(set->name);
      PagedSequence clean(shape_of(1, 64, element, element), 100, 0x00);
      PagedSequence dirty(shape_of(1, 64, element, element), 100, 0xFF);  // NaN
      clean.store_random(*set, 20);
      dirty.store_random(*set, 20);
      const AttentionProblem on_clean(clean, 2, 21);
      const AttentionProblem on_dirty(dirty, 2, 21);
      EXPECT_TRUE(same_bits(on_clean.run(*set, 99, 1), on_dirty.run(*set, 99, 1)));
      EXPECT_TRUE(same_bits(on_clean.run(*set, 60, 40), on_dirty.run(*set, 60, 40)));
    }
  }
}

TEST(Attention, NeverSeesSlotsReservedForLaterTokens) {
  const KernelSet& set = *available_sets().back();
  PagedSequence longer(shape_of(1, 64), 640);
  longer.store_random(set, 22);
  const AttentionProblem problem(longer, 3, 23);
  const std::vector<float> with_future = problem.run(set, 130, 10);

  longer.pages().resize(3);
  longer.pages()[2].end = 12;  // positions up to 139
  longer.refresh();
  EXPECT_TRUE(same_bits(problem.run(set, 130, 10), with_future));
}

TEST(Attention, ReadsPagesThatStartAndEndInTheMiddle) {
  // Positions 0..39 in slots 0..39 of one page, 40..103 in slots 10..63 and so on of others.
  for (const KernelSet* set : available_sets()) {
    SCOPED_TRACE(set->name);
    PagedSequence sequence(shape_of(1, 32), 320);
    std::vector<PageSpan>& pages = sequence.pages();
    pages[0].end = 40;
    pages[1].logical_base = pages[1].stored_base = 30;  // 40..93
    pages[1].begin = 10;
    pages[2].logical_base = pages[2].stored_base = 94;  // 94..133
    pages[2].end = 40;
    pages[3].logical_base = pages[3].stored_base = 114;  // 134..177
    pages[3].begin = 20;
    pages.resize(4);
    sequence.refresh();

    PagedSequence ordinary(shape_of(1, 32), 178);
    const std::vector<float> k = random_floats(178 * 32, 24);
    const std::vector<float> v = random_floats(178 * 32, 25);
    ordinary.store(*set, k, v);
    const StoreKvArgs args{.kv = &sequence.view(),
                           .layer = 0,
                           .first_position = 0,
                           .k = k.data(),
                           .v = v.data(),
                           .kv_stride = 32};
    set->store_kv(args, 0, 178);

    const AttentionProblem problem(sequence, 2, 26);
    for (const int32_t window : {0, 50}) {
      sequence.view().window = window;
      const std::vector<float> out = problem.run(*set, 0, 178);
      for (int32_t p = 0; p < 178; p += 11) expect_exact(problem, p, row_of(problem, out, p));
    }
  }
}

TEST(Attention, GivesTheSameZeroWhereAnUnderflowMeetsInvisibleSlots) {
  // The total is -1e-45 after split 0 and rounds to -0 in split 1. At position 513 split 2 weighs
  // -1e-45 with 0.05, also -0; in a block the invisible slot of position 514 turns that into +0.
  for (const KernelSet* set : available_sets()) {
    SCOPED_TRACE(set->name);
    PagedSequence sequence(shape_of(1, 8, KvElement::F32, KvElement::F32), 515);
    std::vector<float> k(515 * 8);
    std::vector<float> v(515 * 8);
    for (const int32_t high_score : {256, 512}) std::fill_n(k.begin() + high_score * 8, 8, 0.375f);
    for (const int32_t tiny : {0, 513}) std::fill_n(v.begin() + tiny * 8, 8, -1e-45f);
    std::fill_n(v.begin() + 514 * 8, 8, 1.0f);
    sequence.store(*set, k, v);
    AttentionProblem problem(sequence, 1, 30);
    std::fill(problem.q.begin(), problem.q.end(), std::sqrt(8.0f));
    EXPECT_TRUE(
        same_bits(problem.run(*set, 513, 1), row_of(problem, problem.run(*set, 513, 2), 0)));
  }
}

TEST(AttentionSplit, CoversItsOwn256PositionsOnly) {
  for (const KernelSet* set : available_sets()) {
    SCOPED_TRACE(set->name);
    PagedSequence sequence(shape_of(1, 8), 600);
    sequence.store_random(*set, 31);
    const AttentionProblem problem(sequence, 1, 32);
    std::vector<float> out(8);
    for (int32_t split = 0; split < 4; ++split) {
      std::vector<float> partial(static_cast<size_t>(attention_partial_floats(8)));
      set->attention_split(problem.args(599, out), 0, 0, 1, split, partial.data());
      double largest = -std::numeric_limits<float>::max();  // what a split without tokens says
      for (int32_t j = split * 256; j < std::min(600, split * 256 + 256); ++j) {
        double score = 0;
        for (int32_t d = 0; d < 8; ++d) {
          score += double{problem.q[static_cast<size_t>(599 * 8 + d)]} * problem.scale() *
                   sequence.key(0, j, d);
        }
        largest = std::max(largest, score);
      }
      EXPECT_NEAR(partial[0], largest, 1e-5 * std::abs(largest)) << split;
      EXPECT_EQ(partial[1] == 0.0f, split == 3);
    }
  }
}

TEST(Attention, StaysExactWhenScoresAreFarApart) {
  for (const KernelSet* set : available_sets()) {
    SCOPED_TRACE(set->name);
    PagedSequence sequence(shape_of(1, 64, KvElement::F32, KvElement::F32), 600);
    const std::vector<float> k = random_floats(600 * 64, 27, 30.0f);
    const std::vector<float> v = random_floats(600 * 64, 28);
    sequence.store(*set, k, v);
    const AttentionProblem problem(sequence, 1, 29);
    const std::vector<float> out = problem.run(*set, 590, 10);
    for (int32_t row = 0; row < 10; ++row) {
      for (const float number : row_of(problem, out, row)) ASSERT_TRUE(std::isfinite(number));
      const std::vector<double> exact = problem.exact(590 + row);
      for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_NEAR(row_of(problem, out, row)[i], exact[i], 1e-4);  // scores are around 100
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels
