// replay_main.cc: runs a fuzzing harness over files, without libFuzzer.
//
// Usage: PROGRAM [--mutate N] FILE_OR_FOLDER... A folder stands for the files in it. Fails if there
// is no file at all, so that a lost corpus is noticed. --mutate then runs N random changes of them,
// the same each time: blind, where libFuzzer sees, but in any build and with any compiler. The
// input that ends the program is kept in ./replay-crash.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string* running = nullptr;

/// Keeps the input that ended the program, as libFuzzer does.
void save_input(int) {
  const int file = ::open("replay-crash", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && running != nullptr && ::write(file, running->data(), running->size()) >= 0) {
    std::fputs("the input is in ./replay-crash\n", stderr);
  }
  std::_Exit(134);
}

void run(const std::string& input) {
  running = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

/// A seed with a few bytes changed, dropped or repeated, or with a stretch of another seed in it.
std::string mutated(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  std::string input = seeds[below(seeds.size())];
  for (uint64_t changes = 1 + below(5); changes > 0; --changes) {
    const size_t at = below(input.size() + 1);
    const size_t length = 1 + below(16);
    switch (below(5)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(random());
        break;
      case 1:
        input.erase(at, length);
        break;
      case 2:
        input.insert(at, input.substr(at, length));
        break;
      case 3:
        input.insert(at, 1, static_cast<char>(' ' + below(95)));
        break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        input.insert(at, other.substr(below(other.size() + 1), length * 4));
      }
    }
  }
  return input;
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    if (!std::filesystem::exists(path)) return {};
    return {path};
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> seeds;
  uint64_t num_mutations = 0;
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == std::string_view("--mutate") && i + 1 < argc) {
      num_mutations = std::strtoull(argv[++i], nullptr, 10);
      continue;
    }
    for (const auto& file : files_of(argv[i])) seeds.push_back(read_file(file));
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(signal, save_input);
  for (const std::string& seed : seeds) run(seed);
  std::mt19937_64 random(1);
  if (!seeds.empty()) {
    for (uint64_t i = 0; i < num_mutations; ++i) run(mutated(seeds, random));
  }
  std::printf("%zu inputs and %llu mutations survived\n", seeds.size(),
              static_cast<unsigned long long>(num_mutations));
  return seeds.empty() ? 1 : 0;
}
