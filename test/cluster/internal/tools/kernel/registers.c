
/*
 * The kernel below takes floating point state only as a whole, as long as the processor has it. FP_SIZE ends before
 * the tiles of AMX (components 17 and 18): what is beyond is zero, and said to be in its initial state. The kernel
 * below cuts a length that is more than the processor has.
 */
static struct iovec whole_registers(const unsigned long *fp_regs)
{
	static unsigned long whole[16384 / sizeof(unsigned long)];
	int i;

	for (i = 0; i < FP_SIZE; i++)
		whole[i] = fp_regs[i];
	whole[512 / sizeof(unsigned long)] &= 0x3ff; /* XSTATE_BV: components 0 to 9 are within FP_SIZE */
	return (struct iovec) { .iov_base = whole, .iov_len = sizeof(whole) };
}
