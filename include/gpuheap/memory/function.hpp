// A small std::function and a small std::shared_ptr, with the members that the library needs. The standard headers would add half a second
// to the compilation of each program. Host code only.
#pragma once

#include <gpuheap/simt/language.hpp>

#if GPUHEAP_HAS_HOST

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory {

// The base of objects that shared<T> holds.
class held {
 public:
  held() = default;
  held(held const&) = delete;
  held& operator=(held const&) = delete;
  virtual ~held() = default;

 private:
  template <class T>
  friend class shared;
  mutable unsigned num_holders_ = 0;  // only accessed by atomics
};

// A reference-counted pointer to an object, or a null pointer. The last copy destroys the object. Several threads may make and destroy
// copies at the same time.
template <class T>
class shared {
 public:
  shared() = default;
  explicit shared(T const* object) noexcept : object_{object} { take(); }
  shared(shared const& other) noexcept : object_{other.object_} { take(); }
  shared(shared&& other) noexcept : object_{other.object_} { other.object_ = nullptr; }
  shared& operator=(shared other) noexcept {
    T const* const mine = object_;
    object_ = other.object_;
    other.object_ = mine;
    return *this;
  }
  ~shared() {
    // acq_rel: all accesses of other holders to the object come before its destruction.
    if (object_ != nullptr && __atomic_sub_fetch(&object_->num_holders_, 1u, __ATOMIC_ACQ_REL) == 0) delete object_;
  }
  [[nodiscard]] T const* operator->() const { return object_; }
  [[nodiscard]] explicit operator bool() const { return object_ != nullptr; }

 private:
  void take() noexcept {
    // relaxed: the copying thread has a copy itself, so the object lives.
    if (object_ != nullptr) (void)__atomic_add_fetch(&object_->num_holders_, 1u, __ATOMIC_RELAXED);
  }
  T const* object_ = nullptr;
};

// A function object with the signature void(Args...), or empty. Copies share the callable.
template <class Signature>
class function;
// The only specialisation, for functions without a result.
template <class... Args>
class function<void(Args...)> {
 public:
  function() = default;
  template <class F>
  requires(!simt::is_same_v<F, function>) && requires(F f, Args... args) { f(args...); }
  function(F f) {  // NOLINT(google-explicit-constructor): a lambda is a function
    // A null function pointer or an empty wrapper makes an empty function.
    if constexpr (simt::is_pointer_v<F>) {
      if (f == nullptr) return;
    } else if constexpr (requires { f.operator bool(); }) {
      if (!f.operator bool()) return;
    }
    held_ = shared<interface>{new model<F>{static_cast<F&&>(f)}};
  }

  void operator()(Args... args) const { held_->call(args...); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(held_); }

 private:
  struct interface : held {
    virtual void call(Args... args) const = 0;
  };
  template <class F>
  struct model final : interface {
    explicit model(F&& f) : f_{static_cast<F&&>(f)} {}
    void call(Args... args) const override { f_(args...); }
    mutable F f_;
  };
  shared<interface> held_;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::memory
#endif
