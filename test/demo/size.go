package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// size is what a container asks for or has: CPU in millicores, memory in bytes; 0 is not set.
type size struct{ cpu, cpuLimit, memory, memoryLimit int64 }

func sizeOf(r corev1.ResourceRequirements) size {
	return size{
		cpu: r.Requests.Cpu().MilliValue(), cpuLimit: r.Limits.Cpu().MilliValue(),
		memory: r.Requests.Memory().Value(), memoryLimit: r.Limits.Memory().Value(),
	}
}

func targetOf(r v1alpha1.Resources) size {
	cpuRequest, cpuLimit := ptr.Deref(r.CPURequest, resource.Quantity{}), ptr.Deref(r.CPULimit, resource.Quantity{})
	memoryRequest, memoryLimit := ptr.Deref(r.MemoryRequest, resource.Quantity{}), ptr.Deref(r.MemoryLimit, resource.Quantity{})
	return size{
		cpu: cpuRequest.MilliValue(), cpuLimit: cpuLimit.MilliValue(),
		memory: memoryRequest.Value(), memoryLimit: memoryLimit.Value(),
	}
}

// near says what of a size is not where it is heading, if anything: differences of a tenth are left alone.
func (s size) near(target size) error {
	for _, n := range []struct {
		what      string
		got, want int64
	}{
		{"CPU request", s.cpu, target.cpu}, {"CPU limit", s.cpuLimit, target.cpuLimit},
		{"memory request", s.memory, target.memory}, {"memory limit", s.memoryLimit, target.memoryLimit},
	} {
		if 10*max(n.got-n.want, n.want-n.got) > n.got {
			return fmt.Errorf("its %s is not where it is heading: %v and not %v", n.what, s, target)
		}
	}
	return nil
}

func (s size) String() string {
	return fmt.Sprintf("cpu %s/%s, memory %s/%s", milli(s.cpu), milli(s.cpuLimit), mib(s.memory), mib(s.memoryLimit))
}

func milli(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%dm", n)
}

// mib rounds up: what is shown is never less than what is there.
func mib(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%dMi", (n+mebibyte-1)/mebibyte)
}
