package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
)

func key2(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// describe is what a person wants to know of a workload in a failure, by the name of its recommendation.
func (w *world) describe(about string) string {
	namespace, name, _ := strings.Cut(about, "/")
	out := []string{"last writes:", w.server.Journal.Of("AttuneRecommendation", about)}
	if rec, ok := w.server.Peek(&v1alpha1.AttuneRecommendation{}, key2(namespace, name)).(*v1alpha1.AttuneRecommendation); ok {
		raw, err := json.Marshal(rec.Status)
		out = append(out, "status: "+string(raw), fmt.Sprint(err))
		raw, _ = json.Marshal(rec.Spec.Containers)
		out = append(out, "targets: "+string(raw))
	}
	for _, o := range w.server.Stored(&autoscalingv2.HorizontalPodAutoscaler{}) {
		if o.GetNamespace() == namespace {
			out = append(out, "HPA "+o.GetName()+":", w.server.Journal.Of("HorizontalPodAutoscaler", namespace+"/"+o.GetName()))
		}
	}
	shown := 0
	for _, o := range w.server.Stored(&corev1.Pod{}) {
		key := key2(o.GetNamespace(), o.GetName())
		if w.watching.owners[key] != key2(namespace, name) || shown >= 3 {
			continue
		}
		shown++
		out = append(out, "pod "+key.String()+" on "+o.(*corev1.Pod).Spec.NodeName+":", w.server.Journal.Of("Pod", key.String()))
	}
	return strings.Join(append(out, "events:", w.told.about(name)), "\n")
}

func keyOf(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return key2(namespace, name)
}
