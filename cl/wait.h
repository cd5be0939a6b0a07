/* Waiting for what another core writes. For CPUs. */
#ifndef CLEF_CL_WAIT_H
#define CLEF_CL_WAIT_H

#include "inline.h"

/* Makes what others wrote before they counted visible from here on, and what this core wrote before it counts
 * visible to others. */
#ifdef __clang__
#  define SEE_OTHERS() __sync_synchronize()
#else
#  define SEE_OTHERS() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif

/* PAUSE(): between two polls. PATIENCE: polls that take about a millisecond. Assembly is in functions of its
 * own (inline.h, BODY). */
#if defined(__clang__) && defined(__x86_64__)
static void pause_core(void)
{
    BODY
    __asm__ volatile("pause");
}
#  define PAUSE()  pause_core()
#  define PATIENCE (1u << 15)
#else
#  define PAUSE()
#  define PATIENCE (1u << 19)
#endif

/* YIELD(): lets another thread have the core, by the system's call sched_yield. */
#if defined(__clang__) && defined(__x86_64__) && defined(__linux__)
static void yield_core(void)
{
    BODY
    long number = 24;
    __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
}
#  define YIELD() yield_core()
#else
#  define YIELD() PAUSE()
#endif

#endif
