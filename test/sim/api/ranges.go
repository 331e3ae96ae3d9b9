package api

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	helpers "k8s.io/component-helpers/resource"
)

// ranges of a namespace.
func (s *Server) ranges(namespace string) (all []corev1.LimitRangeItem) {
	for _, o := range s.stored[s.kinds[limitRangeType]].list() {
		if o.GetNamespace() == namespace {
			all = append(all, o.(*corev1.LimitRange).Spec.Limits...)
		}
	}
	return all
}

// defaultLimits gives containers what a LimitRange says of those that say nothing.
func (s *Server) defaultLimits(pod *corev1.Pod) {
	for _, item := range s.ranges(pod.Namespace) {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		for _, c := range containers(pod) {
			setDefaults(&c.Resources.Limits, item.Default)
			setDefaults(&c.Resources.Requests, item.DefaultRequest)
		}
	}
}

func setDefaults(list *corev1.ResourceList, defaults corev1.ResourceList) {
	for name, q := range defaults {
		if _, set := (*list)[name]; set {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = q
	}
}

// checkRanges is what LimitRanger says of a pod.
func (s *Server) checkRanges(pod *corev1.Pod) error {
	var errs []string
	for _, item := range s.ranges(pod.Namespace) {
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, c := range containers(pod) {
				errs = append(errs, outside(item, c.Resources)...)
			}
		case corev1.LimitTypePod:
			errs = append(errs, outside(item, corev1.ResourceRequirements{
				Requests: helpers.PodRequests(pod, helpers.PodResourcesOptions{}), Limits: helpers.PodLimits(pod, helpers.PodResourcesOptions{}),
			})...)
		}
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, fmt.Errorf("%s", errs[0]))
	}
	return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, fmt.Errorf("[%s]", strings.Join(errs, ", ")))
}

func outside(item corev1.LimitRangeItem, r corev1.ResourceRequirements) (errs []string) {
	for _, name := range sizable {
		request, requested := r.Requests[name]
		limit, limited := r.Limits[name]
		if least, set := item.Min[name]; set {
			if !requested {
				errs = append(errs, fmt.Sprintf("minimum %s usage per %s is %s.  No request is specified", name, item.Type, least.String()))
			} else if request.Cmp(least) < 0 {
				errs = append(errs, fmt.Sprintf("minimum %s usage per %s is %s, but request is %s", name, item.Type, least.String(), request.String()))
			}
		}
		if most, set := item.Max[name]; set {
			if !limited {
				errs = append(errs, fmt.Sprintf("maximum %s usage per %s is %s.  No limit is specified", name, item.Type, most.String()))
			} else if limit.Cmp(most) > 0 {
				errs = append(errs, fmt.Sprintf("maximum %s usage per %s is %s, but limit is %s", name, item.Type, most.String(), limit.String()))
			}
		}
		if ratio, set := item.MaxLimitRequestRatio[name]; set && requested && limited && !request.IsZero() {
			if provided := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); provided > ratio.AsApproximateFloat64() {
				errs = append(errs, fmt.Sprintf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, item.Type, ratio.String(), provided))
			}
		}
	}
	return errs
}
