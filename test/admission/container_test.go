package admission

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// shape is how one amount of a container is written.
type shape uint8

const (
	unset shape = iota
	equal
	complete // request and limit, most often not equal
	requestOnly
	limitOnly
	mixed // any of the above, and wrong ones
)

var shapes = []shape{unset, equal, equal, complete, complete, requestOnly, limitOnly, mixed, mixed}

func (d dice) container(name string, s shape) corev1.Container {
	c := corev1.Container{Name: name, Image: "example.com/" + name, Resources: d.requirements(s)}
	d.others(&c.Resources)
	if d.chance(15) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "GOMEMLIMIT", ValueFrom: &corev1.EnvVarSource{
			ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: pick(d, "limits.memory", "requests.memory"), Divisor: resource.MustParse("1")},
		}})
	}
	if d.chance(5) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "GOMAXPROCS", Value: "2"})
	}
	for _, r := range sized {
		if d.chance(20) {
			c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: r, RestartPolicy: pick(d, corev1.NotRequired, corev1.RestartContainer)})
		}
	}
	return c
}

func (d dice) requirements(s shape) (out corev1.ResourceRequirements) {
	for _, r := range sized {
		d.write(&out, r, s)
	}
	if d.chance(5) && out.Requests == nil {
		out.Requests = corev1.ResourceList{}
	}
	return out
}

func (d dice) write(out *corev1.ResourceRequirements, r corev1.ResourceName, s shape) {
	low, high := d.ordered(r)
	switch s {
	case equal:
		put(&out.Requests, r, high)
		put(&out.Limits, r, high)
	case complete:
		put(&out.Requests, r, low)
		put(&out.Limits, r, high)
	case requestOnly:
		put(&out.Requests, r, low)
	case limitOnly:
		put(&out.Limits, r, high)
	case mixed:
		if d.chance(3) {
			low, high = high, low // refused, where they differ
		}
		if d.chance(5) {
			low = resource.Quantity{}
		}
		if d.chance(75) {
			put(&out.Requests, r, low)
		}
		if d.chance(60) {
			put(&out.Limits, r, high)
		}
	}
}

// others are resources that attune must not touch.
func (d dice) others(out *corev1.ResourceRequirements) {
	if d.chance(12) {
		put(&out.Requests, corev1.ResourceEphemeralStorage, resource.MustParse(pick(d, "1Gi", "512Mi", "0")))
		if d.chance(60) {
			put(&out.Limits, corev1.ResourceEphemeralStorage, resource.MustParse(pick(d, "1Gi", "2Gi")))
		}
	}
	if d.chance(6) {
		amount := resource.MustParse(pick(d, "1", "2"))
		put(&out.Requests, "example.com/gpu", amount)
		put(&out.Limits, "example.com/gpu", amount)
	}
	if d.chance(6) {
		amount := resource.MustParse(pick(d, "2Mi", "64Mi"))
		put(&out.Requests, "hugepages-2Mi", amount)
		put(&out.Limits, "hugepages-2Mi", amount)
	}
}
