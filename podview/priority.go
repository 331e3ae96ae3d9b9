package podview

// CriticalPriority is the priority of system-cluster-critical: to fit such a pod, a kubelet evicts others.
const CriticalPriority = 2_000_000_000

// Critical reports whether Kubernetes treats a pod of this priority class and priority (nil: not known) as critical.
func Critical(class string, priority *int32) bool {
	return class == "system-cluster-critical" || class == "system-node-critical" || priority != nil && *priority >= CriticalPriority
}
