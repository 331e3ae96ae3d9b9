package resize

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// generationLabels name the template that a pod was made from. A Job's template cannot change, so its
// uid names it too.
var generationLabels = []string{
	appsv1.DefaultDeploymentUniqueLabelKey,
	appsv1.ControllerRevisionHashLabelKey,
	batchv1.ControllerUidLabel,
}

// TemplateHash names the template generation of a pod, and stays the same over resizes. Where no
// controller has written one on the pod (a ReplicaSet that stands alone), it is a digest of what the
// containers run; their sizes are left out, because a resize changes them.
func TemplateHash(pod *corev1.Pod) string {
	for _, label := range generationLabels {
		if hash := pod.Labels[label]; hash != "" {
			return hash
		}
	}
	var program strings.Builder
	for _, container := range pod.Spec.Containers {
		for _, part := range [][]string{{container.Name, container.Image}, container.Command, container.Args} {
			program.WriteString(strings.Join(part, "\x00") + "\x01")
		}
	}
	return strconv.FormatUint(hash(program.String()), 36)
}
