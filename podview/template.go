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

// generationLabels name the template that a pod was made from. The uid of its Job is none of them: each Job of a
// CronJob has another one, and they all have the CronJob's template.
var generationLabels = []string{
	appsv1.DefaultDeploymentUniqueLabelKey,
	workload.ArgoHashLabel,
	appsv1.ControllerRevisionHashLabelKey,
}

// TemplateHash names the template generation of a pod, and stays the same over resizes. Where no
// controller has written one on the pod (a ReplicaSet that stands alone, a Job), it is a digest of what the
// containers run; their sizes are left out, because a resize changes them.
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

// GenerationNamed reports whether a controller wrote on the pod from which template it was made. For other pods
// only what they run is known, which stays the same where only sizes change.
func GenerationNamed(pod *corev1.Pod) bool { return GenerationOf(pod.Labels) != "" }

// GenerationOf is the template generation that a pod's labels name, or empty.
func GenerationOf(labels map[string]string) string {
	for _, label := range generationLabels {
		if name := labels[label]; name != "" {
			return name
		}
	}
	return ""
}

// SameProgram reports whether the pod runs what a template says, in all of the template's containers. The pod may
// have more containers, which admission added. It is false for a template without containers.
func SameProgram(pod *corev1.Pod, template *corev1.PodSpec) bool {
	runs := map[string]string{}
	for i := range pod.Spec.Containers {
		runs[pod.Spec.Containers[i].Name] = programOf(&pod.Spec.Containers[i])
	}
	return len(template.Containers) > 0 && !slices.ContainsFunc(template.Containers, func(c corev1.Container) bool { return runs[c.Name] != programOf(&c) })
}

// programOf is a text that identifies what a container runs: its name, image, command and arguments.
func programOf(c *corev1.Container) string {
	var text strings.Builder
	for _, part := range [][]string{{c.Name, clip.ShortText(c.Image)}, clip.ShortTexts(c.Command), clip.ShortTexts(c.Args)} {
		text.WriteString(strings.Join(part, "\x00") + "\x01")
	}
	return text.String()
}

// Hash of a name: it orders pods and workloads in a way that is the same in every pass, and favours none.
func Hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
