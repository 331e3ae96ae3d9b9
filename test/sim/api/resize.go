package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	helpers "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resize is a patch of pods/resize: everything but sizes stays as it is.
func (s *Server) resize(o *corev1.Pod, p client.Patch, manager string) error {
	k := s.kinds[podType]
	if s.NoResize {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", k.group(), o.Name, "", 0, false)
	}
	found, err := s.find(k, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	stored := found.(*corev1.Pod)
	wanted, err := patched(k, stored, o, p)
	if err != nil {
		return err
	}
	if wanted.GetResourceVersion() != stored.ResourceVersion {
		return conflict(k, stored.Name)
	}
	next := resized(stored, wanted.(*corev1.Pod))
	s.defaultLimits(next)
	for _, c := range containers(next) {
		requestsFromLimits(c)
	}
	if err := s.validResize(stored, next); err != nil {
		return err
	}
	if err := s.admitResize(stored, next); err != nil {
		return err
	}
	next.ManagedFields = s.managed(stored, next, manager)
	return s.put(k, stored, next, o)
}

// AcceptsResize returns why a resize of a stored pod to the sizes of another one would be refused, or would add limits that
// nobody asked for (a LimitRange's defaults); nil: neither.
// Nothing is stored or charged.
func (s *Server) AcceptsResize(stored, wanted *corev1.Pod) error {
	if s.NoResize {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", corev1.Resource("pods"), stored.Name, "", 0, false)
	}
	next := resized(stored, wanted)
	asked := next.DeepCopy()
	s.defaultLimits(next)
	if !equality.Semantic.DeepEqual(asked.Spec, next.Spec) {
		return errors.New("a LimitRange would add limits")
	}
	for _, c := range containers(next) {
		requestsFromLimits(c)
	}
	if err := s.validResize(stored, next); err != nil {
		return err
	}
	if err := s.checkRanges(next); err != nil {
		return err
	}
	if err := s.checkNode(stored, next); err != nil {
		return err
	}
	_, err := s.charged(stored, next)
	return err
}

// resized is a pod with the sizes of another one.
func resized(stored, wanted *corev1.Pod) *corev1.Pod {
	next := stored.DeepCopy()
	for _, pair := range [][2][]corev1.Container{{next.Spec.Containers, wanted.Spec.Containers}, {next.Spec.InitContainers, wanted.Spec.InitContainers}} {
		for i := range pair[0] {
			if i < len(pair[1]) {
				pair[0][i].Resources = *pair[1][i].Resources.DeepCopy()
			}
		}
	}
	return next
}

// validResize is what the real server answers with 422.
func (s *Server) validResize(before, after *corev1.Pod) error {
	var errs field.ErrorList
	if QOS(before) != QOS(after) {
		errs = append(errs, field.Invalid(field.NewPath("spec"), QOS(after), "Pod QOS Class may not change as a result of resizing"))
	}
	for i := range before.Spec.Containers {
		path := field.NewPath("spec", "containers").Index(i).Child("resources")
		errs = append(errs, s.validContainer(path, &before.Spec.Containers[i], &after.Spec.Containers[i])...)
	}
	for i := range before.Spec.InitContainers {
		path := field.NewPath("spec", "initContainers").Index(i).Child("resources")
		errs = append(errs, s.validContainer(path, &before.Spec.InitContainers[i], &after.Spec.InitContainers[i])...)
	}
	if len(errs) > 0 {
		return invalidPod(before.Name, errs...)
	}
	return nil
}

func (s *Server) validContainer(path *field.Path, before, after *corev1.Container) field.ErrorList {
	var errs field.ErrorList
	for name, lists := range map[string][2]corev1.ResourceList{
		"requests": {before.Resources.Requests, after.Resources.Requests}, "limits": {before.Resources.Limits, after.Resources.Limits},
	} {
		errs = append(errs, onlySizes(path.Child(name), name, lists[0], lists[1])...)
	}
	errs = append(errs, withinLimits(path, after)...)
	return append(errs, s.validMemory(path, before, after)...)
}

// withinLimits: no request is above its limit.
func withinLimits(path *field.Path, c *corev1.Container) (errs field.ErrorList) {
	for _, name := range sizable {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		if _, limited := c.Resources.Limits[name]; limited && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests"), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return errs
}

// onlySizes: CPU and memory may change, and nothing may be taken away.
func onlySizes(path *field.Path, what string, before, after corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for name, had := range before {
		now, there := after[name]
		switch sized := name == corev1.ResourceCPU || name == corev1.ResourceMemory; {
		case !there:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("resource %s cannot be removed", what)))
		case !sized && now.Cmp(had) != 0:
			errs = append(errs, field.Forbidden(field.NewPath("spec"), "only cpu and memory resources are mutable"))
		}
	}
	for name := range after {
		if _, there := before[name]; !there && !slices.Contains(sizable, name) {
			errs = append(errs, field.Forbidden(field.NewPath("spec"), "only cpu and memory resources are mutable"))
		}
	}
	return errs
}

// validMemory: Kubernetes 1.33 takes no lower memory limit without a restart.
func (s *Server) validMemory(path *field.Path, before, after *corev1.Container) field.ErrorList {
	if s.Minor >= 34 || restartsFor(after, corev1.ResourceMemory) {
		return nil
	}
	had, limited := before.Resources.Limits[corev1.ResourceMemory]
	now, limits := after.Resources.Limits[corev1.ResourceMemory]
	path = path.Child("limits").Key(string(corev1.ResourceMemory))
	switch {
	case limits && !limited:
		return field.ErrorList{field.Forbidden(path, "memory limits cannot be added unless resizePolicy is RestartContainer")}
	case limits && now.Cmp(had) < 0:
		return field.ErrorList{field.Forbidden(path, "memory limits cannot be decreased unless resizePolicy is RestartContainer")}
	}
	return nil
}

func restartsFor(c *corev1.Container, name corev1.ResourceName) bool {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == name && p.RestartPolicy == corev1.RestartContainer {
			return true
		}
	}
	return false
}

// admitResize is what the real server answers with 403.
func (s *Server) admitResize(before, after *corev1.Pod) error {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil
	}
	if err := s.checkRanges(after); err != nil {
		return err
	}
	if err := s.checkNode(before, after); err != nil {
		return err
	}
	return s.charge(before, after)
}

// checkNode: from 1.36 on a node's whole capacity bounds a resize at admission.
func (s *Server) checkNode(before, after *corev1.Pod) error {
	if s.Minor < 36 || after.Spec.NodeName == "" {
		return nil
	}
	found, err := s.find(s.kinds[nodeType], client.ObjectKey{Name: after.Spec.NodeName})
	if err != nil {
		return apierrors.NewForbidden(corev1.Resource("pods"), after.Name, fmt.Errorf("node %q not found", after.Spec.NodeName))
	}
	had, wants := plainRequests(before), plainRequests(after)
	for _, name := range sizable {
		has, want := found.(*corev1.Node).Status.Allocatable[name], wants[name]
		if was := had[name]; want.Cmp(has) <= 0 || want.Cmp(was) <= 0 {
			continue
		}
		amount := func(r corev1.ResourceList) int64 {
			if q := r[name]; name == corev1.ResourceCPU {
				return q.MilliValue()
			} else {
				return q.Value()
			}
		}
		err := apierrors.NewForbidden(corev1.Resource("pods"), after.Name, fmt.Errorf(
			"node didn't have enough allocatable resources: %s, requested: %d, allocatable: %d", name, amount(wants), amount(found.(*corev1.Node).Status.Allocatable)))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NodeCapacity"}}
		return err
	}
	return nil
}

func plainRequests(pod *corev1.Pod) corev1.ResourceList {
	return helpers.PodRequests(pod, helpers.PodResourcesOptions{})
}
