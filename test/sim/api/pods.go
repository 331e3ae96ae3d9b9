package api

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	helpers "k8s.io/component-helpers/resource"
)

var namespaceType = reflect.TypeFor[corev1.Namespace]()

// sizable are the resources that can be resized.
var sizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Default gives a new pod what it comes to the webhook with. It changes the pod alone.
func (s *Server) Default(pod *corev1.Pod) {
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	for _, c := range containers(pod) {
		requestsFromLimits(c)
	}
	s.defaultLimits(pod)
	for _, c := range containers(pod) {
		requestsFromLimits(c)
		c.ResizePolicy = policies(c)
	}
}

// preparePod does what defaults and admission do with a new one.
func (s *Server) preparePod(pod *corev1.Pod) error {
	s.Default(pod)
	if s.Admit != nil {
		s.Admit(pod)
	}
	if err := s.validatePod(pod); err != nil {
		return err
	}
	if err := s.charge(nil, pod); err != nil {
		return err
	}
	pod.Status.Phase, pod.Status.QOSClass = corev1.PodPending, QOS(pod)
	return nil
}

// Accepts returns why a new pod would be refused, with or without Admit; nil: it would be created. Nothing is stored or
// charged; it changes the pod alone.
func (s *Server) Accepts(pod *corev1.Pod, admit bool) error {
	s.Default(pod)
	if admit && s.Admit != nil {
		s.Admit(pod)
	}
	if err := s.validatePod(pod); err != nil {
		return err
	}
	_, err := s.charged(nil, pod)
	return err
}

// validatePod is what comes after what changes a new pod.
func (s *Server) validatePod(pod *corev1.Pod) error {
	for _, c := range containers(pod) {
		requestsFromLimits(c)
		c.ResizePolicy = policies(c)
		if errs := withinLimits(field.NewPath("spec", "containers").Key(c.Name).Child("resources"), c); len(errs) > 0 {
			return invalidPod(pod.Name, errs...)
		}
	}
	if err := s.checkRanges(pod); err != nil {
		return err
	}
	if s.Validate != nil {
		return s.Validate(pod)
	}
	return nil
}

// containers of a pod, with those that run first.
func containers(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

func requestsFromLimits(c *corev1.Container) {
	for name, limit := range c.Resources.Limits {
		if _, set := c.Resources.Requests[name]; !set {
			if c.Resources.Requests == nil {
				c.Resources.Requests = corev1.ResourceList{}
			}
			c.Resources.Requests[name] = limit
		}
	}
}

// policies are those of a container, one for each resource that it sets.
func policies(c *corev1.Container) []corev1.ContainerResizePolicy {
	all := c.ResizePolicy
	for _, name := range sizable {
		_, requested := c.Resources.Requests[name]
		_, limited := c.Resources.Limits[name]
		if (requested || limited) && !hasPolicy(all, name) {
			all = append(all, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: corev1.NotRequired})
		}
	}
	return all
}

func hasPolicy(all []corev1.ContainerResizePolicy, name corev1.ResourceName) bool {
	for _, p := range all {
		if p.ResourceName == name {
			return true
		}
	}
	return false
}

// QOS class of a pod without resources of its own.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	any, all := false, true
	for _, c := range containers(pod) {
		for _, name := range sizable {
			request, requested := c.Resources.Requests[name]
			limit, limited := c.Resources.Limits[name]
			any = any || requested && !request.IsZero() || limited && !limit.IsZero()
			all = all && limited && !limit.IsZero() && (!requested || request.Cmp(limit) == 0)
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// unchanged: on the main endpoint sizes cannot be written.
func unchanged(before, after *corev1.Pod) error {
	for i := range before.Spec.Containers {
		if i >= len(after.Spec.Containers) || !equality.Semantic.DeepEqual(before.Spec.Containers[i].Resources, after.Spec.Containers[i].Resources) {
			return invalidPod(before.Name, field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than `spec.containers[*].image`"))
		}
	}
	return nil
}

func invalidPod(name string, errs ...*field.Error) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), name, errs)
}

// requestsOf is what a pod takes of a quota.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return helpers.PodRequests(pod, helpers.PodResourcesOptions{UseStatusResources: true})
}

func limitsOf(pod *corev1.Pod) corev1.ResourceList {
	return helpers.PodLimits(pod, helpers.PodResourcesOptions{UseStatusResources: true})
}
