package workload

// Annotations by which people keep a pod where it is; the first ones are those of Karpenter, now and before,
// of the Cluster Autoscaler, and of the Descheduler.
const (
	KarpenterDoNotDisrupt = "karpenter.sh/do-not-disrupt"
	KarpenterDoNotEvict   = "karpenter.sh/do-not-evict"
	AutoscalerSafe        = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	DeschedulerPrefersNot = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
)
