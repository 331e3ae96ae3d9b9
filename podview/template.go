package podview

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
)

// generationLabels identify the template that a pod was made from. The uid of its Job is not among them: each Job of a
// CronJob has a different uid, and all have the CronJob's template.
var generationLabels = []string{
	appsv1.DefaultDeploymentUniqueLabelKey,
	workload.ArgoHashLabel,
	appsv1.ControllerRevisionHashLabelKey,
}

// TemplateHash identifies the template generation of a pod, and stays the same over resizes. If no controller labelled
// the pod with one (a ReplicaSet without a Deployment, a Job), it is a digest of the containers' programs. Sizes are
// left out, because a resize changes them.
func TemplateHash(pod *corev1.Pod) string {
	if name := GenerationOf(pod.Labels); name != "" {
		return name
	}
	var all strings.Builder
	for i := range pod.Spec.Containers {
		all.WriteString(programOf(&pod.Spec.Containers[i]))
	}
	return strconv.FormatUint(Hash(all.String()), 36)
}

// GenerationNamed reports whether a controller labelled the pod with its template generation. For other pods only the
// programs are known, which stay the same if only sizes change.
func GenerationNamed(pod *corev1.Pod) bool { return GenerationOf(pod.Labels) != "" }

// GenerationOf returns the template generation in a pod's labels, or "".
func GenerationOf(labels map[string]string) string {
	for _, label := range generationLabels {
		if name := labels[label]; name != "" {
			return name
		}
	}
	return ""
}

// SameProgram reports whether all containers of the template run the same program in the pod. The pod may have more
// containers, which admission added. It is false for a template without containers.
func SameProgram(pod *corev1.Pod, template *corev1.PodSpec) bool {
	runs := map[string]string{}
	for i := range pod.Spec.Containers {
		runs[pod.Spec.Containers[i].Name] = programOf(&pod.Spec.Containers[i])
	}
	return len(template.Containers) > 0 && !slices.ContainsFunc(template.Containers, func(c corev1.Container) bool { return runs[c.Name] != programOf(&c) })
}

// programOf returns a text that identifies the program of a container: its name, image, command and arguments.
func programOf(c *corev1.Container) string {
	var text strings.Builder
	for _, part := range [][]string{{c.Name, clip.ShortText(c.Image)}, clip.ShortTexts(c.Command), clip.ShortTexts(c.Args)} {
		text.WriteString(strings.Join(part, "\x00") + "\x01")
	}
	return text.String()
}

// Hash orders pods and workloads by name: the same order in every reconcile, without preference for any name.
func Hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
