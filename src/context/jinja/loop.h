// loop.h: the `loop` variable: where a for loop stands.
//
// Looks only as far ahead as it is asked to: `loop.last` tests the next item, `loop.length` all of
// them, which matters when the loop's condition depends on what the body changes. Lives in one
// render, on one thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/jinja/access.h"
#include "context/jinja/ast.h"
#include "context/jinja/value.h"

namespace quire::context::jinja {

class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  /// Whether the loop's condition lets an item through.
  using Condition = std::function<Result<bool>(const Value&)>;

  Loop(const ForStatement& statement, std::vector<Value> items, Condition condition, int32_t depth)
      : statement_(statement),
        items_(std::move(items)),
        condition_(std::move(condition)),
        depth_(depth) {}

  /// Moves to the next item; false at the end.
  Result<bool> advance();
  const Value& current() const { return items_[passing_[index_]]; }

  const ForStatement& statement() const { return statement_; }
  int32_t depth() const { return depth_; }  // of recursive loops, from 0

  std::string_view type_name() const override { return "LoopContext"; }
  std::string repr() const override { return "<LoopContext>"; }
  bool is_callable() const override { return true; }
  Result<std::optional<Value>> attribute(std::string_view name) override;

 private:
  /// Makes passing_ hold at least `count` items, or all there are.
  Result<void> look_ahead(size_t count);
  Result<Value> cycle(const Arguments& arguments) const;
  Result<Value> changed(Runtime& runtime, const Arguments& arguments);

  const ForStatement& statement_;
  std::vector<Value> items_;
  Condition condition_;
  int32_t depth_;
  std::vector<size_t> passing_;  // items the condition has let through so far
  size_t scanned_ = 0;           // items tested so far
  size_t index_ = 0;             // of the current item in passing_
  bool started_ = false;
  std::vector<Value> last_changed_;
  bool has_changed_ = false;
};

}  // namespace quire::context::jinja
