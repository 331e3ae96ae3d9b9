package trim

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// mostContainers is the size limit in bytes for the containers of an object and for their status. clip.MostText is the
// limit for labels and scheduling constraints.
//
// A container takes about 2 KiB, and 5 KiB with the longest names and commands, so a pod of 50 containers is kept
// whole.
const mostContainers = 256 << 10

// large marks an object that lost fields that decisions need. what is workload.Text or workload.Cut. The operator
// starts no resize of a marked object. Text never replaces a mark Cut, because Text loses less.
func large(annotations map[string]string, what string) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	if !workload.Incomplete(annotations) {
		annotations[workload.TooLargeAnnotation] = what
	}
	return annotations
}

// textOf returns the size in bytes of the labels and scheduling constraints of a pod or template.
func textOf(labels map[string]string, spec *corev1.PodSpec) int {
	return clip.Size(labels, spec.NodeSelector, spec.Tolerations, requiredNodes(spec.Affinity), memoryVolumes(spec.Volumes))
}

// boundPod trims a pod that is too large. It keeps the fields that count it on its node and in its workload: owner,
// requests and state.
func boundPod(pod *corev1.Pod) {
	spec, status := &pod.Spec, &pod.Status
	if textOf(pod.Labels, spec) > clip.MostText {
		// The pod is still counted on its node. The operator starts no resize of it.
		pod.Annotations = large(pod.Annotations, workload.Text)
		// These labels identify the owner, the template and the identity of the pod.
		kept := only(pod.Labels, appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, workload.ArgoHashLabel)
		for name, value := range workload.IdentityLabels(pod.Labels) {
			podview.SetIn(&kept, name, value)
		}
		pod.Labels = kept
		spec.NodeSelector, spec.Tolerations, spec.Affinity = nil, nil, nil
		oneVolume(spec)
	}
	if clip.Size(spec.InitContainers, spec.Containers, spec.Overhead, spec.Resources, status) > mostContainers {
		// Without its containers their sizes are not known.
		pod.Annotations = large(pod.Annotations, workload.Cut)
		oneContainer(pod)
	}
}

// oneVolume replaces all memory-backed volumes by one without a size limit, the cautious assumption.
func oneVolume(spec *corev1.PodSpec) {
	if len(spec.Volumes) == 0 {
		return
	}
	// One name is enough: only the size limit of a volume is read, and this volume has none.
	const name = "memory"
	spec.Volumes = []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if len(containers[i].VolumeMounts) > 0 {
				containers[i].VolumeMounts = []corev1.VolumeMount{{Name: name}}
			}
		}
	}
}

// oneContainer replaces all containers of a pod by one with the sum of their resources.
func oneContainer(pod *corev1.Pod) {
	// The scheduler's computation, so that the sum is the amount that the scheduler reserves.
	options := helpers.PodResourcesOptions{UseStatusResources: true, ExcludeOverhead: true}
	all := corev1.ResourceRequirements{Requests: cpuAndMemory(helpers.PodRequests(pod, options)), Limits: cpuAndMemory(helpers.PodLimits(pod, options))}
	name := "all"
	if len(pod.Spec.Containers) > 0 {
		name = cut(pod.Spec.Containers[0].Name)
	}
	pod.Spec.InitContainers, pod.Spec.Containers = nil, []corev1.Container{{Name: name, Resources: all}}
	pod.Spec.Overhead, pod.Spec.Resources, pod.Spec.Volumes = cpuAndMemory(pod.Spec.Overhead), nil, nil
	was := pod.Status
	pod.Status = corev1.PodStatus{ObservedGeneration: was.ObservedGeneration, Phase: was.Phase, Reason: cut(was.Reason), QOSClass: was.QOSClass, StartTime: was.StartTime}
	for _, c := range was.Conditions {
		switch c.Type {
		case corev1.PodReady, corev1.PodScheduled, corev1.PodResizePending, corev1.PodResizeInProgress:
			c.Reason, c.Message = cut(c.Reason), cut(c.Message)
			pod.Status.Conditions = append(pod.Status.Conditions, c)
		}
	}
	pod.Status.Conditions = pod.Status.Conditions[:min(len(pod.Status.Conditions), 4)]
}

// boundWorkload trims a workload that is too large. It keeps its name and its rollout status. text is the textOf of its
// template: pods of a template that is too large are too large as well.
func boundWorkload(w workload.Object, template *corev1.PodTemplateSpec, text int) {
	if text > clip.MostText {
		w.SetAnnotations(large(w.GetAnnotations(), workload.Text))
		template.Spec.OS, template.Spec.NodeSelector, template.Spec.Affinity, template.Spec.Tolerations = nil, nil, nil, nil
		oneVolume(&template.Spec)
	}
	boundLabels(w)
	if clip.Size(template.Spec.InitContainers, template.Spec.Containers) > mostContainers {
		w.SetAnnotations(large(w.GetAnnotations(), workload.Cut))
		template.Spec = corev1.PodSpec{}
	}
}

// boundLabels drops labels that are too large.
func boundLabels(w workload.Object) {
	if clip.Size(w.GetLabels()) > clip.MostText {
		w.SetAnnotations(large(w.GetAnnotations(), workload.Text))
		w.SetLabels(nil)
	}
}
