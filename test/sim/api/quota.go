package api

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	nodeType       = reflect.TypeFor[corev1.Node]()
	limitRangeType = reflect.TypeFor[corev1.LimitRange]()
	quotaType      = reflect.TypeFor[corev1.ResourceQuota]()
)

var one = resource.MustParse("1")

// takes is what a pod takes of a quota; nil takes nothing.
func takes(pod *corev1.Pod) corev1.ResourceList {
	out := corev1.ResourceList{}
	if pod == nil {
		return out
	}
	for name, q := range requestsOf(pod) {
		out[name], out["requests."+name] = q, q
	}
	for name, q := range limitsOf(pod) {
		out["limits."+name] = q
	}
	out[corev1.ResourcePods] = one
	return out
}

// charge the quotas of a namespace with what a pod takes more than before, or refuse it. What it takes less is for
// the quota controller to see.
func (s *Server) charge(before, after *corev1.Pod) error {
	charged, err := s.charged(before, after)
	for _, next := range charged {
		s.commit(s.kinds[quotaType], next)
	}
	return err
}

// charged are the quotas with what a pod takes more than before, or the refusal.
func (s *Server) charged(before, after *corev1.Pod) (charged []*corev1.ResourceQuota, _ error) {
	k := s.kinds[quotaType]
	var had, wants corev1.ResourceList
	for _, o := range s.stored[k].list() {
		quota := o.(*corev1.ResourceQuota)
		if quota.Namespace != after.Namespace {
			continue
		}
		if wants == nil {
			had, wants = takes(before), takes(after)
		}
		next, err := within(quota, had, wants, after)
		if err != nil {
			return nil, err
		}
		if next != nil {
			charged = append(charged, next)
		}
	}
	return charged, nil
}

// within a quota: it with the pod's growth, nil where it does not grow, or the refusal.
func within(quota *corev1.ResourceQuota, had, wants corev1.ResourceList, pod *corev1.Pod) (*corev1.ResourceQuota, error) {
	if missing := unnamed(quota, pod); missing != "" {
		return nil, forbidden(pod, "failed quota: %s: must specify %s", quota.Name, missing)
	}
	sums := corev1.ResourceList{}
	var over, requested, used, limited []string
	for _, name := range slices.Sorted(maps.Keys(quota.Spec.Hard)) {
		hard := quota.Spec.Hard[name]
		want, counted := wants[name]
		if !counted {
			continue
		}
		delta := want.DeepCopy()
		delta.Sub(had[name])
		if delta.Sign() <= 0 {
			continue
		}
		now, known := quota.Status.Used[name]
		if !known {
			return nil, forbidden(pod, "status unknown for quota: %s, resources: %s", quota.Name, name)
		}
		sum := now.DeepCopy()
		sum.Add(delta)
		if sum.Cmp(hard) > 0 {
			over = append(over, string(name))
			requested, used, limited = append(requested, pair(name, delta)), append(used, pair(name, now)), append(limited, pair(name, hard))
			continue
		}
		sums[name] = sum
	}
	if len(over) > 0 {
		for _, list := range [][]string{requested, used, limited} {
			slices.Sort(list)
		}
		return nil, forbidden(pod, "exceeded quota: %s, requested: %s, used: %s, limited: %s",
			quota.Name, strings.Join(requested, ","), strings.Join(used, ","), strings.Join(limited, ","))
	}
	if len(sums) == 0 {
		return nil, nil
	}
	next := quota.DeepCopy()
	maps.Copy(next.Status.Used, sums)
	return next, nil
}

func pair(name corev1.ResourceName, q resource.Quantity) string {
	return fmt.Sprintf("%s=%s", name, q.String())
}

func forbidden(pod *corev1.Pod, format string, args ...any) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, fmt.Errorf(format, args...))
}

// unnamed are the quota's resources that containers leave out, with the containers.
func unnamed(quota *corev1.ResourceQuota, pod *corev1.Pod) string {
	var out []string
	for name := range quota.Spec.Hard {
		var of func(*corev1.Container) corev1.ResourceList
		plain := corev1.ResourceName(strings.TrimPrefix(strings.TrimPrefix(string(name), "requests."), "limits."))
		switch {
		case plain != corev1.ResourceCPU && plain != corev1.ResourceMemory:
			continue
		case strings.HasPrefix(string(name), "limits."):
			of = func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }
		default:
			of = func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests }
		}
		var names []string
		for _, c := range containers(pod) {
			if _, set := of(c)[plain]; !set {
				names = append(names, c.Name)
			}
		}
		if len(names) > 0 {
			out = append(out, fmt.Sprintf("%s for: %s", name, strings.Join(names, ",")))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}
