#include "context/jinja/loop.h"

#include "context/jinja/operators.h"

namespace quire::context::jinja {

Result<void> Loop::look_ahead(size_t count) {
  while (passing_.size() < count && scanned_ < items_.size()) {
    const size_t candidate = scanned_++;
    bool passes = true;
    if (condition_) {
      QUIRE_TRY(passes, condition_(items_[candidate]));
    }
    if (passes) passing_.push_back(candidate);
  }
  return {};
}

Result<bool> Loop::advance() {
  const size_t next = started_ ? index_ + 1 : 0;
  QUIRE_TRY_VOID(look_ahead(next + 1));
  if (next >= passing_.size()) return false;
  index_ = next;
  started_ = true;
  return true;
}

Result<std::optional<Value>> Loop::attribute(std::string_view name) {
  const auto number = [](size_t n) { return std::optional(Value(static_cast<int64_t>(n))); };
  if (name == "index") return number(index_ + 1);
  if (name == "index0") return number(index_);
  if (name == "first") return std::optional(Value(index_ == 0));
  if (name == "depth") return number(static_cast<size_t>(depth_) + 1);
  if (name == "depth0") return number(static_cast<size_t>(depth_));
  if (name == "previtem") {
    if (index_ == 0) return std::optional(Value::undefined("there is no previous item"));
    return std::optional(items_[passing_[index_ - 1]]);
  }
  if (name == "last" || name == "nextitem") {
    QUIRE_TRY_VOID(look_ahead(index_ + 2));
    const bool is_last = passing_.size() < index_ + 2;
    if (name == "last") return std::optional(Value(is_last));
    if (is_last) return std::optional(Value::undefined("there is no next item"));
    return std::optional(items_[passing_[index_ + 1]]);
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    QUIRE_TRY_VOID(look_ahead(items_.size()));
    if (name == "length") return number(passing_.size());
    return number(passing_.size() - index_ - (name == "revindex0" ? 1 : 0));
  }
  const auto self = shared_from_this();
  if (name == "cycle") {
    const auto body = [self](Runtime&, const Arguments& a) { return self->cycle(a); };
    return std::optional(Value(std::make_shared<Function>("cycle", body)));
  }
  if (name == "changed") {
    const auto body = [self](Runtime& runtime, const Arguments& a) {
      return self->changed(runtime, a);
    };
    return std::optional(Value(std::make_shared<Function>("changed", body)));
  }
  return std::optional<Value>();
}

Result<Value> Loop::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty())
    return template_error("loop.cycle() needs items to cycle through");
  return arguments.positional[index_ % arguments.positional.size()];
}

Result<Value> Loop::changed(Runtime& runtime, const Arguments& arguments) {
  bool same = has_changed_ && last_changed_.size() == arguments.positional.size();
  for (size_t i = 0; same && i < last_changed_.size(); ++i) {
    QUIRE_TRY(same, equals(runtime, last_changed_[i], arguments.positional[i]));
  }
  has_changed_ = true;
  last_changed_ = arguments.positional;
  return Value(!same);
}

}  // namespace quire::context::jinja
