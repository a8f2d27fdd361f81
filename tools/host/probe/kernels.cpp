#include "kernels.hpp"

namespace gpuheap::probe {

char const* const kernels = R"(
.version 6.4
.target sm_75
.address_size 64

.extern .func (.param .b64 block) malloc (.param .b64 bytes);
.extern .func free (.param .b64 block);

.visible .entry add_one(.param .u64 to, .param .u64 from, .param .u32 num)
{
  .reg .pred %done;
  .reg .u32 %i, %num, %value;
  .reg .u64 %to, %from;
  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  ld.param.u32 %num, [num];
  mov.u32 %i, 0;
next:
  setp.ge.u32 %done, %i, %num;
  @%done bra end;
  ld.u32 %value, [%from];
  add.u32 %value, %value, 1;
  st.u32 [%to], %value;
  add.u64 %to, %to, 4;
  add.u64 %from, %from, 4;
  add.u32 %i, %i, 1;
  bra next;
end:
  ret;
}

.visible .entry request(.param .u64 addresses, .param .u64 cycles, .param .u64 bytes, .param .u32 num)
{
  .reg .pred %done;
  .reg .u32 %i, %num;
  .reg .u64 %addresses, %cycles, %bytes, %block, %before, %after;
  ld.param.u64 %addresses, [addresses];
  ld.param.u64 %cycles, [cycles];
  ld.param.u64 %bytes, [bytes];
  ld.param.u32 %num, [num];
  mov.u32 %i, 0;
next:
  setp.ge.u32 %done, %i, %num;
  @%done bra end;
  mov.u64 %before, %clock64;
  {
    .param .b64 asked;
    .param .b64 given;
    st.param.b64 [asked], %bytes;
    call.uni (given), malloc, (asked);
    ld.param.b64 %block, [given];
  }
  mov.u64 %after, %clock64;
  sub.u64 %after, %after, %before;
  st.global.u64 [%addresses], %block;
  st.global.u64 [%cycles], %after;
  add.u64 %addresses, %addresses, 8;
  add.u64 %cycles, %cycles, 8;
  add.u32 %i, %i, 1;
  bra next;
end:
  ret;
}

.visible .entry release(.param .u64 addresses, .param .u64 cycles, .param .u32 num)
{
  .reg .pred %done;
  .reg .u32 %i, %num;
  .reg .u64 %addresses, %cycles, %block, %before, %after;
  ld.param.u64 %addresses, [addresses];
  ld.param.u64 %cycles, [cycles];
  ld.param.u32 %num, [num];
  mov.u32 %i, 0;
next:
  setp.ge.u32 %done, %i, %num;
  @%done bra end;
  ld.global.u64 %block, [%addresses];
  mov.u64 %before, %clock64;
  {
    .param .b64 given;
    st.param.b64 [given], %block;
    call.uni free, (given);
  }
  mov.u64 %after, %clock64;
  sub.u64 %after, %after, %before;
  st.global.u64 [%cycles], %after;
  add.u64 %addresses, %addresses, 8;
  add.u64 %cycles, %cycles, 8;
  add.u32 %i, %i, 1;
  bra next;
end:
  ret;
}
)";

}  // namespace gpuheap::probe
