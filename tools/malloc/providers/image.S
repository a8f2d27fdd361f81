// The bytes of the file GPUHEAP_IMAGE, for provider_unit.in.
  .section .rodata
  .balign 16
  .globl gpuheap_malloc_image
  .hidden gpuheap_malloc_image
gpuheap_malloc_image:
  .incbin GPUHEAP_IMAGE
  .globl gpuheap_malloc_image_end
  .hidden gpuheap_malloc_image_end
gpuheap_malloc_image_end:
  .byte 0
  .section .note.GNU-stack, "", @progbits
