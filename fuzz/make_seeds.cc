// make_seeds.cc: writes the seeds of the binary formats, from the builders that the tests use too.
//
// Usage: quire_make_seeds FOLDER. One folder in it a harness; seeds are valid files, or nearly so.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "formats/ggml_type.h"
#include "formats/gguf_builder.h"
#include "formats/safetensors_builder.h"

namespace quire::formats {
namespace {

class SeedFolder {
 public:
  explicit SeedFolder(const std::filesystem::path& path) : path_(path) {
    std::filesystem::create_directories(path_);
  }
  void add(const std::string& name, const std::string& content) {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

void make_gguf(SeedFolder seeds) {
  seeds.add("sample", sample_gguf().build());
  GgufBuilder old = sample_gguf();
  old.version = 2;
  seeds.add("version2", old.build());
  seeds.add("no_tensors", GgufBuilder().strings("tokenizer.ggml.tokens", {"a", "b"}).build());
  seeds.add("split", GgufBuilder()
                         .number<uint16_t>("split.no", 0)
                         .number<uint16_t>("split.count", 2)
                         .number<int32_t>("split.tensors.count", 2)
                         .tensor({"t", {8}, 0, std::string(32, 't')})
                         .build());
  GgufBuilder types;
  for (uint32_t id = 0; id < 44; ++id) {
    const GgmlType* type = find_ggml_type(id);
    const bool known = type != nullptr && type->block_elements > 0;
    types.tensor({"t" + std::to_string(id),
                  {known ? type->block_elements : 1},
                  id,
                  std::string(known ? type->block_bytes : 1, 't')});
  }
  seeds.add("every_type", types.build());
  std::string nested;
  append_number<uint32_t>(nested, 9);
  append_number<uint64_t>(nested, 1);
  append_number<uint32_t>(nested, 0);
  append_number<uint64_t>(nested, 2);
  seeds.add("nested_array", GgufBuilder().raw("key", 9, nested + "ab").build());
  seeds.add("truncated", sample_gguf().build().substr(0, 300));
}

void make_safetensors(SeedFolder seeds) {
  seeds.add("sample", sample_safetensors());
  seeds.add("one", safetensors_of("w"));
  seeds.add("empty", safetensors_file("{}", ""));
  seeds.add("escapes",
            safetensors_file(
                "{" + safetensors_entry("\\u00e9\\ud83d\\ude00\\n", "U8", "", "0,1") + "}", "x"));
  seeds.add("overlap", safetensors_file("{" + safetensors_entry("a", "U8", "4", "0,4") + "," +
                                            safetensors_entry("b", "U8", "4", "2,6") + "}",
                                        "123456"));
}

void make_json(SeedFolder seeds) {
  seeds.add("kinds", R"({"a":[null,true,-1,2.5e-3,"\u00e9\ud83d\ude00"],"a":{},"b":{"c":[]}})");
  seeds.add("big", "[1000000000000000019884624838656, 18446744073709551615, -9223372036854775809]");
  seeds.add("deep", std::string(128, '[') + std::string(128, ']'));
  seeds.add("many", R"({"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"8":8,"9":9,"1":10})");
}

}  // namespace
}  // namespace quire::formats

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: quire_make_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  quire::formats::make_gguf(quire::formats::SeedFolder(folder / "gguf"));
  quire::formats::make_safetensors(quire::formats::SeedFolder(folder / "safetensors"));
  quire::formats::make_json(quire::formats::SeedFolder(folder / "json"));
  return 0;
}
