package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// owner is who makes pods.
type owner struct {
	client.Object
	apiVersion, kind string
}

// reference makes an object the controller of another (metav1.NewControllerRef).
func (o owner) reference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: o.apiVersion, Kind: o.kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}

// create makes a pod of an owner's template. A name that is taken is no error: a lost answer looks like that.
func (p *Plane) create(ctx context.Context, v *view, of owner, template corev1.PodTemplateSpec, name string) error {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = of.GetNamespace(), name
	pod.OwnerReferences = []metav1.OwnerReference{of.reference()}
	tolerateBriefOutages(pod)
	if p.Admit != nil {
		if err := p.Admit(pod); err != nil {
			return fmt.Errorf("admitting pod %s: %w", name, err)
		}
	}
	if err := p.Client.Create(ctx, pod); err != nil {
		p.failedCreate(ctx, v, of, err)
		return err
	}
	v.add(pod)
	return nil
}

// tolerateBriefOutages is the admission plugin DefaultTolerationSeconds: 300 s on a node that is not ready or not
// reachable, where the pod says nothing else.
func tolerateBriefOutages(pod *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if _, ever := toleration(pod, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}); !ever {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300),
			})
		}
	}
}

// toleration is how long a pod tolerates a taint: nil for ever.
func toleration(pod *corev1.Pod, taint corev1.Taint) (seconds *int64, tolerates bool) {
	for _, t := range pod.Spec.Tolerations {
		key := t.Key == taint.Key || t.Key == "" && t.Operator == corev1.TolerationOpExists
		value := t.Operator == corev1.TolerationOpExists || t.Value == taint.Value
		if key && value && (t.Effect == "" || t.Effect == taint.Effect) {
			return t.TolerationSeconds, true
		}
	}
	return nil, false
}

// remove deletes a pod as a controller does: what was already gone is no error. A pod that has a node stays until its
// kubelet lets it go.
func (p *Plane) remove(ctx context.Context, v *view, pod *corev1.Pod) error {
	if err := client.IgnoreNotFound(p.Client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &pod.UID})); err != nil {
		return err
	}
	if pod.Spec.NodeName == "" || finished(pod) {
		v.drop(pod)
		return nil
	}
	gone := pod.DeepCopy()
	gone.DeletionTimestamp = ptr.To(stored(v.now))
	v.replace(gone)
	return nil
}

// most of a name that is generated (apiserver/pkg/storage/names).
const mostOfBase = validation.DNS1123LabelMaxLength - 5

// podName counts up, so that every run makes the same names. Their form is that of generated ones: the owner's name
// and five characters.
func (p *Plane) podName(of client.Object) string {
	if p.made == nil {
		p.made = map[string]int{}
	}
	key := of.GetNamespace() + "/" + of.GetName()
	p.made[key]++
	base := of.GetName() + "-"
	return base[:min(len(base), mostOfBase)] + rand.SafeEncodeString(fmt.Sprintf("%05d", p.made[key]))
}

// hashed is the hash of a template, as long as its owner's spec is the same.
type hashed struct {
	generation int64
	hash       string
}

// hashOf is the hash of an owner's template.
func (p *Plane) hashOf(of client.Object, template corev1.PodTemplateSpec) string {
	if known, ok := p.hashes[of.GetUID()]; ok && known.generation == of.GetGeneration() && known.generation != 0 {
		return known.hash
	}
	if p.hashes == nil {
		p.hashes = map[types.UID]hashed{}
	}
	hash := templateHash(template)
	p.hashes[of.GetUID()] = hashed{of.GetGeneration(), hash}
	return hash
}

func templateHash(template corev1.PodTemplateSpec) string {
	raw, err := json.Marshal(template)
	if err != nil {
		panic("marshalling plain data: " + err.Error())
	}
	h := fnv.New32a()
	h.Write(raw)
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// active: neither finished nor on its way out.
func active(pod *corev1.Pod) bool { return !finished(pod) && pod.DeletionTimestamp == nil }

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// podsOf are all pods of an owner.
func (v *view) podsOf(of client.Object) []*corev1.Pod { return v.owned[of.GetUID()] }

// running: it may still be, also on its way out.
func running(pod *corev1.Pod) bool { return !finished(pod) }

// activeOf are the active pods of an owner.
func (v *view) activeOf(of client.Object) (pods []*corev1.Pod) {
	for _, pod := range v.owned[of.GetUID()] {
		if active(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// readySince is since when a pod is ready.
func readySince(pod *corev1.Pod) (time.Time, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

func ready(pod *corev1.Pod) bool {
	_, is := readySince(pod)
	return is
}

// available: ready for some seconds; if it is not yet, the plane looks again then.
func (p *Plane) available(v *view, pod *corev1.Pod, minReadySeconds int32) bool {
	since, is := readySince(pod)
	if !is || minReadySeconds == 0 {
		return is
	}
	at := since.Add(time.Duration(minReadySeconds) * time.Second)
	p.wake(v, at)
	return !v.now.Before(at)
}

// stored is a time as the API server keeps it: in whole seconds.
func stored(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
