#include "cli/builtin_text.h"

#include "base/check.h"

namespace quire::cli {

std::string_view builtin_text() {
  return R"(The bindery stood at the end of a lane that flooded every March. Its owner, a woman of
seventy-one named Ilse Marquardt, had learned the trade from her uncle, who had learned it in Leipzig
before the war and never spoke of how he left. She worked with three tools more than with all the
others: a bone folder worn to the shape of her thumb, a paring knife, and a sewing frame whose cords
had been replaced so often that only the wood was old.

A book, she liked to say, is not written in pages but bound in gatherings. Four sheets are folded
once and slipped inside each other: eight leaves, sixteen sides, one gathering. If a line must be
added in the middle of a story, nobody copies the whole book. One opens the gathering where it
belongs, takes out a leaf, lays a new one in its place, and sews the cord again. "Everything before
it stays as it was," she told her apprentice, "and that is why the work can be finished at all."

The apprentice, Tomás, was nineteen and counted things. In his first winter he counted 1,204 folded
sheets, 38 needles broken, 11 that were merely bent, and 2 thumbs, both his own, pierced to the bone.
He wrote the figures down in a notebook with a green cover. In the second winter he began to count
what went wrong: sheets folded against the grain (17), gatherings sewn in the wrong order (4), and
one atlas, commissioned by the port authority for 860 francs, in which the plate of the northern
coast had been bound upside down. The harbour master returned it with a polite letter. "Our pilots,"
it read, "have so far declined to stand on their heads."

They mended it together on a Sunday. The trick, Ilse explained, was to decide how far the damage
reached before touching anything. A careless binder tears out half the volume. A fearful one glues
the plate over and hopes. She ran her finger along the spine, found the fourteenth gathering, and cut
exactly two stitches. The plate came free, turned, and went back. They checked every leaf against the
list: first the numbers, then the words at the foot of each page that announce the next one. It took
forty minutes to repair and three hours to be certain, and she said that this was the right
proportion.

In the evening letters arrived from places she had never seen: Kraków, Århus, 京都, Αθήνα, a village
near Тула. Most asked the same thing in different words. Could an old book be saved if the last
chapters were missing, or the first? She answered all of them by hand. It depends, she wrote, on what
is still there and whether you can prove that it is what it claims to be. A gathering with a false
number on it is worse than a gap, because a gap is honest. Send me what you have, with nothing thrown
away; note down where each leaf lay; and do not, whatever your neighbour advises, use tape.
)";
}

std::vector<TokenId> builtin_tokens(const context::Tokenizer& tokenizer, int64_t count) {
  const auto prefix = tokenizer.prefix();
  std::vector<TokenId> tokens(prefix.begin(), prefix.end());
  const auto wanted = static_cast<size_t>(count);
  const std::vector<TokenId> text = tokenizer.encode(builtin_text(), context::Special::kPlain);
  QUIRE_CHECK(!text.empty(), "a tokenizer that makes nothing of a text");
  while (tokens.size() < wanted) tokens.insert(tokens.end(), text.begin(), text.end());
  tokens.resize(wanted);
  return tokens;
}

}  // namespace quire::cli
