package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
)

// container is the name of the one container of every pod here.
const container = "app"

// look is a pod as it was at one moment, read from the API server and the kernel.
type look struct {
	pod         *corev1.Pod
	uid         types.UID
	containerID string
	restarts    int32
	// asked is what the pod's spec says, given what the kubelet reports, kernel what its cgroup has.
	asked, given size
	kernel       cluster.Grant
	// seeded: the pod was sized at admission.
	seeded bool
}

func (d *demo) look(pod *corev1.Pod) (look, error) {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
		return look{}, fmt.Errorf("pod %s does not run", pod.Name)
	}
	status := pod.Status.ContainerStatuses[0]
	_, seeded := pod.Annotations[v1alpha1.SeededAnnotation]
	l := look{
		pod: pod, uid: pod.UID, containerID: status.ContainerID, restarts: status.RestartCount,
		asked: sizeOf(pod.Spec.Containers[0].Resources), seeded: seeded,
	}
	if status.Resources != nil {
		l.given = sizeOf(*status.Resources)
	}
	var err error
	l.kernel, err = d.cluster.Grant(pod, container)
	return l, err
}

// settled says what of a pod does not agree yet: its spec, its status and its cgroup.
func (l look) settled() error {
	if l.asked != l.given {
		return fmt.Errorf("%s asks for %v and the kubelet gives it %v", l.pod.Name, l.asked, l.given)
	}
	return l.agrees()
}

// agrees says in what the pod's cgroup differs from what the kubelet writes for its size, if in anything.
func (l look) agrees() error {
	if want := cluster.GrantOf(l.kernel.Version, l.given.cpu, l.given.cpuLimit, l.given.memoryLimit); l.kernel != want {
		return fmt.Errorf("the cgroup of %s has %v, not %v", l.pod.Name, l.kernel, want)
	}
	return nil
}

// resizedInPlace says why now is not the very pod of before at another size, if it is not.
func resizedInPlace(before, now look) error {
	switch {
	case now.uid != before.uid:
		return errors.New("another pod has taken its place")
	case now.asked == before.asked:
		return fmt.Errorf("%s still has its old size", now.pod.Name)
	case now.restarts != before.restarts, now.containerID != before.containerID:
		return fmt.Errorf("the container of %s was restarted", now.pod.Name)
	}
	return now.settled()
}

// pods are a workload's pods that are not going away, by age.
func (d *demo) pods(ctx context.Context, workload string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := d.client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app": workload})
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods, err
}

// looks are those of a workload's pods that run; it is an error if there are not n of them.
func (d *demo) looks(ctx context.Context, workload string, n int) ([]look, error) {
	pods, err := d.pods(ctx, workload)
	if err != nil {
		return nil, err
	}
	var all []look
	for i := range pods {
		l, err := d.look(&pods[i])
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	if len(all) != n {
		return nil, fmt.Errorf("%s has %d running pods of %d", workload, len(all), n)
	}
	return all, nil
}

// recommendation is the object that attune keeps of a workload.
func (d *demo) recommendation(ctx context.Context, workload string) (*v1alpha1.AttuneRecommendation, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	return rec, d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "deployment-" + workload}, rec)
}
