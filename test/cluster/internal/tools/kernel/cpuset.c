
#ifndef CONFIG_SMP
int dl_bw_alloc(int cpu, u64 dl_bw) { return 0; }
void dl_bw_free(int cpu, u64 dl_bw) { }
int cpuset_cpumask_can_shrink(const struct cpumask *cur, const struct cpumask *trial) { return 1; }
int task_can_attach(struct task_struct *p) { return 0; }
#endif
