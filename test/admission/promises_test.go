package admission

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	core "k8s.io/kubernetes/pkg/apis/core"

	"attune.io/attune/api/v1alpha1"
)

// result is what became of one scene.
type result struct {
	reason        string
	mutated       bool
	before, after verdict
}

// play sends a scene's pod through admission and holds every promise to it. The error names all that
// were broken.
func (s *scene) play() (r result, err error) {
	shown, h := s.shownToWebhooks(s.pod), s.handler()
	first, err := s.ask(h, shown)
	if err != nil {
		return r, err
	}
	r.reason, r.mutated = first.reason, len(first.patch) > 0
	if !r.mutated {
		return r, nil
	}
	// The API server calls again where a later webhook has changed the pod; its own plugins come first.
	second, err := s.ask(h, s.shownToWebhooks(first.after))
	switch {
	case err != nil:
		return r, fmt.Errorf("second pass: %w", err)
	case len(second.patch) > 0:
		err = fmt.Errorf("a second pass changes the pod again: %s after %s", second.patch, first.patch)
	}
	r.before, r.after = s.judge(shown), s.judge(s.shownToWebhooks(first.after))
	return r, errors.Join(err, stillAccepted(&r.before, &r.after), sameClass(&r.before, &r.after), s.onlySizes(shown, first.after, r.before.class), s.asWritten(shown, first.after))
}

// stillAccepted: whoever took the pod as it was takes it as it is.
func stillAccepted(before, after *verdict) (err error) {
	if before.invalid != nil {
		return nil // nobody ever sees this pod
	}
	if after.invalid != nil {
		err = fmt.Errorf("validation refuses the mutated pod alone: %w", after.invalid)
	}
	if before.ranges == nil && after.ranges != nil {
		err = errors.Join(err, fmt.Errorf("LimitRanger refuses the mutated pod alone: %w", after.ranges))
	}
	if before.quota == nil && after.quota != nil {
		err = errors.Join(err, fmt.Errorf("ResourceQuota refuses the mutated pod alone: %w", after.quota))
	}
	return err
}

// sameClass: the one change of quality of service is that a pod without any requests gets some.
func sameClass(before, after *verdict) error {
	if before.class == after.class || before.class == core.PodQOSBestEffort && after.class == core.PodQOSBurstable {
		return nil
	}
	return fmt.Errorf("the class changes from %s to %s", before.class, after.class)
}

// onlySizes: nothing but requests and limits of CPU and memory changes, and the note of ours.
func (s *scene) onlySizes(before, after *corev1.Pod, class core.PodQOSClass) error {
	blank := after.DeepCopy()
	setNote(blank, note(before))
	var errs []error
	for i := range before.Spec.InitContainers {
		errs = append(errs, s.alike(&before.Spec.InitContainers[i], &blank.Spec.InitContainers[i], class))
	}
	for i := range before.Spec.Containers {
		errs = append(errs, s.alike(&before.Spec.Containers[i], &blank.Spec.Containers[i], class))
	}
	if !equality.Semantic.DeepEqual(before, blank) {
		errs = append(errs, errors.New("something else than sizes and the note has changed"))
	}
	return errors.Join(errs...)
}

func note(pod *corev1.Pod) *string {
	if text, ok := pod.Annotations[v1alpha1.SeededAnnotation]; ok {
		return &text
	}
	return nil
}

func setNote(pod *corev1.Pod, text *string) {
	delete(pod.Annotations, v1alpha1.SeededAnnotation)
	if text != nil {
		pod.Annotations[v1alpha1.SeededAnnotation] = *text
	}
}

// alike checks one container and then gives blank the sizes of before.
func (s *scene) alike(before, blank *corev1.Container, class core.PodQOSClass) (err error) {
	for _, r := range sized {
		removable := r == corev1.ResourceCPU && s.mayRemove(before.Name, class)
		err = errors.Join(err, sizedAlike(before, blank, r, removable))
	}
	restored := func(was, is corev1.ResourceList) corev1.ResourceList {
		for _, r := range sized {
			delete(is, r)
			if q, ok := was[r]; ok {
				put(&is, r, q)
			}
		}
		return is
	}
	blank.Resources.Requests = restored(before.Resources.Requests, blank.Resources.Requests)
	blank.Resources.Limits = restored(before.Resources.Limits, blank.Resources.Limits)
	return err
}

// removes: the seed of a container removes its CPU limit.
func (s *scene) removes(container string) bool {
	if s.rec == nil || s.rec.Spec.Seed == nil {
		return false
	}
	seed := seedOf(s.rec, container)
	return seed != nil && seed.CPULimitRule != nil && seed.CPULimitRule.Remove && seed.CPULimitFollows
}

// sizedAlike: amounts stay, and a limit that is not removable stays a limit.
func sizedAlike(before, after *corev1.Container, r corev1.ResourceName, removable bool) error {
	was, is := before.Resources, after.Resources
	request, asked := is.Requests[r]
	limit, limited := is.Limits[r]
	oldLimit, wasLimited := was.Limits[r]
	oldRequest := was.Requests[r]
	switch {
	case limited && request.Cmp(limit) > 0 && !(wasLimited && oldRequest.Cmp(oldLimit) > 0):
		return fmt.Errorf("%s: %s request %s is above limit %s", before.Name, r, request.String(), limit.String())
	case !oldRequest.IsZero() && (!asked || request.IsZero()):
		return fmt.Errorf("%s: the %s request %s is gone", before.Name, r, oldRequest.String())
	case !removable && !oldLimit.IsZero() && (!limited || limit.IsZero()):
		return fmt.Errorf("%s: the %s limit %s is gone", before.Name, r, oldLimit.String())
	}
	return nil
}

// text shows a scene as somebody who has to understand it needs it.
func (s *scene) text() string {
	raw, err := json.MarshalIndent(map[string]any{
		"pod": s.pod, "policy": s.written, "seed": s.rec.Spec.Seed, "originals": s.rec.Status.Originals, "limitRanges": s.ranges, "quotas": s.quotas,
	}, "", " ")
	if err != nil {
		panic(err)
	}
	return string(raw)
}
