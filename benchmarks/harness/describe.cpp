#include "harness/describe.hpp"

#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/version.hpp>

#include "build_identity.hpp"
#include "build_info.hpp"
#include "harness/json.hpp"
#include "harness/registry.hpp"

namespace gpuheap::bench {

namespace {

char const* name_of(frees how) {
  switch (how) {
    case frees::individually:
      return "individually";
    case frees::collectively:
      return "collectively";
    case frees::never:
      return "never";
  }
  return "";
}

void describe_device(json_writer& json) {
  try {
    auto const device = simt::query_device();
    json.member("backend", device.backend).key("device").begin_object();
    json.member("name", device.name).member("driver_version", device.driver_version).member("runtime_version", device.runtime_version);
    json.member("compute_major", device.compute_major).member("compute_minor", device.compute_minor).member("num_sms", device.num_sms);
    json.member("total_bytes", device.total_bytes).member("free_bytes", device.free_bytes).end_object();
  } catch (error const& failure) {
    json.member("backend", build_backend).key("device").null().member("device_error", failure.what());
  }
}

void describe_allocator(json_writer& json, allocator_entry const& entry) {
  auto const& t = entry.traits;
  json.begin_object();
  json.member("name", t.name).member("title", t.title).member("paper", t.paper).member("year", t.year).member("variant", t.variant);
  json.member("reuse", t.reuse).member("min_alignment", t.min_alignment);
  json.member("smallest_bytes", t.smallest_bytes).member("largest_bytes", t.largest_bytes).member("free", name_of(t.free));
  json.member("warp_level", t.warp_level)
      .member("process_wide", t.process_wide)
      .member("overwrites", t.overwrites)
      .member("reuses_singly", t.reuses_singly)
      .member("full_reuse", t.full_reuse);
  json.member("detects_double_free", t.detects_double_free).member("detects_foreign_free", t.detects_foreign_free);
  json.member("supported", entry.why_not.empty());
  if (!entry.why_not.empty()) json.member("why_not", entry.why_not);
  json.end_object();
}

void describe_case(json_writer& json, case_description const& what) {
  json.begin_object().member("name", what.name).member("brief", what.brief).member("section", what.section);
  json.key("parameters").begin_array();
  for (auto const& p : what.parameters) json.value(p.name);
  json.end_array().end_object();
}

}  // namespace

std::string describe() {
  json_writer json;
  json.begin_object();
  describe_device(json);
  json.key("allocators").begin_array();
  for (auto const& entry : all_allocators()) {
    if (!entry.baseline) describe_allocator(json, entry);
  }
  json.end_array().key("baselines").begin_array();
  for (auto const& entry : all_allocators()) {
    if (entry.baseline) json.value(entry.traits.name);
  }
  json.end_array().key("cases").begin_array();
  for (auto const* what : case_descriptions()) describe_case(json, *what);
  json.end_array().member("version", GPUHEAP_VERSION_STRING);
  json.key("build")
      .begin_object()
      .member("compiler", build_compiler)
      .member("flags", build_flags)
      .member("type", build_type)
      .member("identity", build_identity);
  json.end_object().member("serves", true).end_object();
  return json.text();
}

std::string why_not_timed() {
#if !defined(NDEBUG)
  return "it is a debug build";
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "it is instrumented by a sanitizer";
#else
  return "";
#endif
}

}  // namespace gpuheap::bench
