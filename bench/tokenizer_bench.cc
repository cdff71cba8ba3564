// tokenizer_bench.cc: how fast a tokenizer encodes, and what the texts are that could slow it down.
//
//   quire_tokenizer_bench MODEL.gguf | FOLDER [TEXT_FILE]
//
// One thread, timed by the processor's clock so that other programs count little. Prints megabytes
// (10^6) a second and tokens for the text, repeated to 4 MB, then seconds for one megabyte of each
// of a few monotonous texts: linear time shows as equal speed for any length.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "context/tokenizer.h"
#include "formats/gguf.h"

namespace {

using namespace quire;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 28;
constexpr size_t kMegabyte = 1'000'000;

Result<context::Tokenizer> load(const std::string& path) {
  FileSystem& files = real_file_system();
  if (files.is_file(path)) {
    QUIRE_TRY(const auto gguf,
              formats::GgufFile::open(files, path, formats::OpenMode::kMetadataOnly));
    return context::Tokenizer::from_gguf(gguf.metadata());
  }
  QUIRE_TRY(const std::string json, files.read(path + "/tokenizer.json", kMaxFileBytes));
  return context::Tokenizer::from_json(json);
}

/// English prose, code and two other scripts, in about the proportions of a working day.
constexpr const char* kOrdinary =
    "A quire is a gathering of pages, folded together and sewn through the fold; it's 1,024 tokens "
    "long, or 64 pages. The reader doesn't see the thread.\n\n"
    "def turn(page, pages):\n    return pages[page + 1] if page + 1 < len(pages) else None\n\n"
    "Die Seiten werden gefaltet, geheftet und gebunden. \u9875\u9762\u88ab\u6298\u53e0\u3002 "
    "\u0421\u0442\u0440\u0430\u043d\u0438\u0446\u044b.\n";

std::string repeated(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

struct Timing {
  double seconds;
  size_t tokens;
};

/// The fastest of three.
Timing encode(const context::Tokenizer& tokenizer, const std::string& text) {
  Timing best{1e9, 0};
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    const size_t tokens = tokenizer.encode(text, context::Special::kPlain).size();
    const double taken = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    best = {std::min(best.seconds, taken), tokens};
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL.gguf | FOLDER [TEXT_FILE]\n", argv[0]);
    return 2;
  }
  const std::clock_t start = std::clock();
  const auto tokenizer = load(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 3;
  }
  const double loading = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::string unit = kOrdinary;
  if (argc > 2) {
    auto file = real_file_system().read(argv[2], kMaxFileBytes);
    if (!file.ok() || file->empty()) return 3;
    unit = *std::move(file);
  }
  const std::string text = repeated(unit, 4 * kMegabyte);
  const Timing ordinary = encode(*tokenizer, text);
  fmt::print("{}, {} tokens, loaded in {:.2f} s\n", tokenizer->description(),
             tokenizer->vocab_size(), loading);
  fmt::print("ordinary text  {:6.1f} MB/s, {:.2f} bytes a token\n",
             static_cast<double>(text.size()) / 1e6 / ordinary.seconds,
             static_cast<double>(text.size()) / static_cast<double>(ordinary.tokens));
  const std::pair<const char*, const char*> monotonous[] = {{"a", "a"},
                                                            {"space", " "},
                                                            {"newline", "\n"},
                                                            {"CJK", "\u4f60\u597d\u4e16\u754c"},
                                                            {"one CJK", "\u4f60"},
                                                            {"digits", "1234567890"},
                                                            {"emoji", "\U0001F600"},
                                                            {"marks", "a\u0301\u0323"}};
  for (const auto& [name, text_unit] : monotonous) {
    const Timing one = encode(*tokenizer, repeated(text_unit, kMegabyte));
    fmt::print("1 MB {:<9} {:6.3f} s, {} tokens\n", name, one.seconds, one.tokens);
  }
}
