package trim

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/clip"
)

// horizontal keeps the target of a HorizontalPodAutoscaler, the metrics that depend on requests, and which program writes it.
func horizontal(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	marks := scalerMarks(hpa)
	identity(hpa)
	hpa.SetAnnotations(marks)
	of := hpa.Spec
	of.ScaleTargetRef.Kind, of.ScaleTargetRef.Name, of.ScaleTargetRef.APIVersion = cut(of.ScaleTargetRef.Kind), cut(of.ScaleTargetRef.Name), cut(of.ScaleTargetRef.APIVersion)
	hpa.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: of.ScaleTargetRef, MinReplicas: of.MinReplicas, MaxReplicas: of.MaxReplicas, Metrics: onRequests(of.Metrics),
		Behavior: behavior(of.Behavior),
	}
	hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
}

// scalerMarks returns the annotations that a HorizontalPodAutoscaler or ScaledObject keeps (autoscale.Marks).
func scalerMarks(o metav1.Object) map[string]string {
	marks := autoscale.Marks(o)
	for name, value := range marks {
		marks[name] = cut(value)
	}
	return marks
}

// behavior keeps the tolerances and the windows of a HorizontalPodAutoscaler.
func behavior(of *autoscalingv2.HorizontalPodAutoscalerBehavior) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	if of == nil {
		return nil
	}
	only := func(rules *autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
		if rules == nil || rules.Tolerance == nil && rules.StabilizationWindowSeconds == nil {
			return nil
		}
		return &autoscalingv2.HPAScalingRules{Tolerance: rules.Tolerance, StabilizationWindowSeconds: rules.StabilizationWindowSeconds}
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: only(of.ScaleUp), ScaleDown: only(of.ScaleDown)}
}

// mostMetrics is the limit of metrics kept of a HorizontalPodAutoscaler: two for each of 32 containers.
const mostMetrics = 64

// onRequests keeps the metrics that are relative to requests. Above mostMetrics it returns metrics on all requests: an
// unnecessary hold is harmless. If no metric remains, it returns an external one, because an HPA without metrics scales
// on CPU.
func onRequests(metrics []autoscalingv2.MetricSpec) []autoscalingv2.MetricSpec {
	if len(metrics) == 0 {
		return nil
	}
	var kept []autoscalingv2.MetricSpec
	for _, m := range metrics {
		switch {
		case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && sized(m.Resource.Name, m.Resource.Target):
			kept = append(kept, onResource(m.Resource.Name, m.Resource.Target.AverageUtilization))
		case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil && sized(m.ContainerResource.Name, m.ContainerResource.Target):
			kept = append(kept, autoscalingv2.MetricSpec{Type: m.Type, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
				Name: m.ContainerResource.Name, Container: cut(m.ContainerResource.Container),
				Target: autoscalingv2.MetricTarget{AverageUtilization: m.ContainerResource.Target.AverageUtilization},
			}})
		}
	}
	switch {
	// The order of the cases matters: no metric on requests differs from no metric.
	case len(kept) == 0:
		// Without metrics, the HPA would scale on CPU.
		return []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType}}
	case len(kept) > mostMetrics:
		return []autoscalingv2.MetricSpec{onResource(corev1.ResourceCPU, nil), onResource(corev1.ResourceMemory, nil)}
	}
	return kept
}

// onResource returns a metric on the requests of a pod. percent may be nil.
func onResource(name corev1.ResourceName, percent *int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: name, Target: autoscalingv2.MetricTarget{AverageUtilization: percent},
	}}
}

// sized reports whether a metric is a fraction of a request that attune sizes.
func sized(name corev1.ResourceName, target autoscalingv2.MetricTarget) bool {
	return (name == corev1.ResourceCPU || name == corev1.ResourceMemory) && target.AverageValue == nil
}

// scaler keeps what attune reads of a VerticalPodAutoscaler or a ScaledObject, the only kinds that are read unstructured.
func scaler(o *unstructured.Unstructured) {
	if o.GetKind() == autoscale.ScaledObjectKind.Kind {
		scaledObject(o)
	} else {
		vertical(o)
	}
}

// vertical keeps the target and the mode of a VerticalPodAutoscaler, and whether it boosts. attune reads only these, the
// marks of its own VPAs (package bridge) and whether they have a recommendation.
func vertical(vpa *unstructured.Unstructured) {
	kept := copyTexts(vpa, [][]string{
		{"spec", "targetRef", "apiVersion"}, {"spec", "targetRef", "kind"}, {"spec", "targetRef", "name"}, {"spec", "updatePolicy", "updateMode"},
	})
	if autoscale.Boosts(vpa) {
		_ = unstructured.SetNestedMap(kept.Object, map[string]any{}, "spec", "startupBoost", "cpu") // cannot fail: kept has only maps
	}
	marks(vpa, kept)
	vpa.Object = kept.Object
}

// scaledObject keeps the target of a KEDA ScaledObject, the name of its HPA, and the triggers for CPU and memory.
func scaledObject(o *unstructured.Unstructured) {
	const mostTriggers = 16 // an object needs one for each resource and container
	kept := copyTexts(o, [][]string{
		{"spec", "scaleTargetRef", "apiVersion"}, {"spec", "scaleTargetRef", "kind"}, {"spec", "scaleTargetRef", "name"},
		{"spec", "advanced", "horizontalPodAutoscalerConfig", "name"},
	})
	field, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "triggers")
	triggers, _ := field.([]any)
	var sized []any
	for _, t := range triggers {
		trigger, _ := t.(map[string]any)
		if kind := trigger["type"]; (kind == "cpu" || kind == "memory") && len(sized) < mostTriggers {
			of := copyFields(trigger, [][]string{{"type"}, {"metricType"}, {"metadata", "type"}, {"metadata", "value"}, {"metadata", "containerName"}})
			sized = append(sized, of)
		}
	}
	_ = unstructured.SetNestedSlice(kept.Object, sized, "spec", "triggers") // cannot fail: kept has only maps
	if marks := scalerMarks(o); len(marks) > 0 {
		kept.SetAnnotations(marks)
	}
	o.Object = kept.Object
}

// copyTexts returns an object with the identity of the given one and the strings at the paths: this drops unknown fields
// of other versions.
func copyTexts(o *unstructured.Unstructured, paths [][]string) *unstructured.Unstructured {
	kept := &unstructured.Unstructured{Object: copyFields(o.Object, append([][]string{
		{"apiVersion"}, {"kind"}, {"metadata", "namespace"}, {"metadata", "name"}, {"metadata", "uid"}, {"metadata", "resourceVersion"},
		{"metadata", "creationTimestamp"}, {"metadata", "deletionTimestamp"},
	}, paths...))}
	kept.SetGeneration(o.GetGeneration())
	return kept
}

// copyFields returns the strings at the paths, shortened.
func copyFields(of map[string]any, paths [][]string) map[string]any {
	kept := map[string]any{}
	for _, path := range paths {
		if text, found, err := unstructured.NestedString(of, path...); found && err == nil {
			_ = unstructured.SetNestedField(kept, cut(text), path...) // cannot fail: kept has only maps
		}
	}
	return kept
}

// marks keeps the fields by which attune recognizes its own VPAs, and the digest of its last write.
func marks(vpa, kept *unstructured.Unstructured) {
	// A VPA that a user takes over still has its owner reference to the ClusterRole of the bridge.
	if of := vpa.GetOwnerReferences(); len(of) == 1 && of[0].Kind == "ClusterRole" {
		kept.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: cut(of[0].APIVersion), Kind: of[0].Kind, Name: cut(of[0].Name), UID: cut(of[0].UID)}})
	}
	if vpa.GetLabels()[autoscale.ManagedByLabel] != autoscale.ManagedBy {
		return
	}
	kept.SetLabels(map[string]string{autoscale.ManagedByLabel: autoscale.ManagedBy})
	if published := vpa.GetAnnotations()[v1alpha1.PublishedAnnotation]; published != "" {
		kept.SetAnnotations(map[string]string{v1alpha1.PublishedAnnotation: cut(published)})
	}
	if autoscale.RecommendedBy(vpa) == autoscale.Recommender {
		_ = unstructured.SetNestedSlice(kept.Object, []any{map[string]any{"name": autoscale.Recommender}}, "spec", "recommenders") // as above
	}
	if autoscale.Recommends(vpa) { // only its existence is read
		_ = unstructured.SetNestedSlice(kept.Object, []any{map[string]any{}}, "status", "recommendation", "containerRecommendations") // as above
	}
}

// namespace keeps the labels, because cluster policies select by them. If they are too large, it keeps only the label
// that decides whether new pods of the namespace are sized. No other kind is read as metadata only.
func namespace(of *metav1.PartialObjectMetadata) {
	kept := of.Labels
	if clip.Size(kept) > clip.MostText {
		// An empty value differs from no label.
		inject, labelled := kept[v1alpha1.InjectLabel]
		kept = map[string]string{clip.LabelsLeftOut: ""}
		if labelled {
			kept[v1alpha1.InjectLabel] = inject
		}
	}
	identity(of)
	of.Labels = kept
}

// policy keeps the spec, the status and the finalizers: a patch of finalizers replaces the whole list.
func policy(p *v1alpha1.AttunePolicy) {
	own(p)
	p.Labels, p.Annotations, p.OwnerReferences = nil, nil, nil
	if clip.GreatSelector(p.Spec.TargetRef.Selector) {
		p.Spec.TargetRef.Selector = clip.LeftOut()
	}
	source(&p.Spec.PolicySettings)
}

// clusterPolicy keeps the same fields as policy.
func clusterPolicy(p *v1alpha1.AttuneClusterPolicy) {
	own(p)
	p.Labels, p.Annotations, p.OwnerReferences = nil, nil, nil
	if clip.GreatSelector(p.Spec.NamespaceSelector) {
		p.Spec.NamespaceSelector = clip.LeftOut()
	}
	if p.Spec.TargetRef != nil && clip.GreatSelector(p.Spec.TargetRef.Selector) {
		p.Spec.TargetRef.Selector = clip.LeftOut()
	}
	source(&p.Spec.PolicySettings)
}

// defaults keeps the spec of defaults, except a usage source that is too large.
func defaults(o metav1.Object, spec *v1alpha1.DefaultsSpec) {
	identity(o)
	source(&spec.PolicySettings)
}

// source replaces a usage source above clip.MostText by one with an invalid address that states the reason. Dropping
// only its headers could query the server as another tenant.
func source(settings *v1alpha1.PolicySettings) {
	if settings.MetricsSource == nil || settings.MetricsSource.Prometheus == nil {
		return
	}
	if clip.Size(settings.MetricsSource.Prometheus) > clip.MostText {
		kept := *settings.MetricsSource
		kept.Prometheus = &v1alpha1.PrometheusSource{Address: "its headers and parameters are more than 16 KiB"}
		settings.MetricsSource = &kept
	}
}

// mostNode is the size in bytes up to which a node is kept whole. Programs that detect node features write hundreds of
// labels of 100 bytes each.
const mostNode = 64 << 10

// boundNode trims a node that is too large. It keeps the fields that matter to its running pods. It marks the node
// unschedulable, because without labels it is not known which pods the node would accept.
func boundNode(node *corev1.Node) {
	status := &node.Status
	// Nearly every node is kept whole.
	if clip.Size(node.Labels, status) <= mostNode {
		return
	}
	node.Spec.Unschedulable = true
	node.Labels = only(node.Labels, corev1.LabelOSStable, "node-role.kubernetes.io/control-plane")
	status.Capacity, status.Allocatable = cpuAndMemory(status.Capacity), cpuAndMemory(status.Allocatable)
	status.DeclaredFeatures = nil
	info := &status.NodeInfo
	info.BootID, info.KubeletVersion, info.OperatingSystem = cut(info.BootID), cut(info.KubeletVersion), cut(info.OperatingSystem)
	conditions, addresses := status.Conditions, status.Addresses
	status.Conditions, status.Addresses = nil, nil
	for _, c := range conditions {
		switch c.Type {
		case corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure:
			c.Status = cut(c.Status)
			status.Conditions = append(status.Conditions, c)
		}
	}
	// A user with write access to a node's status could repeat a condition many times.
	status.Conditions = status.Conditions[:min(len(status.Conditions), 4)]
	// The kubelet is scraped at the first internal IP.
	for _, a := range addresses {
		if a.Type == corev1.NodeInternalIP {
			a.Address = cut(a.Address)
			status.Addresses = []corev1.NodeAddress{a}
			break
		}
	}
}

// only returns the entries with these names; nil if there are no such entries.
func only[M ~map[K]V, K comparable, V any](values M, names ...K) M {
	var kept M
	for _, name := range names {
		if value, ok := values[name]; ok {
			if kept == nil {
				kept = M{}
			}
			kept[name] = value
		}
	}
	return kept
}

// cpuAndMemory keeps the two resources that attune sizes; nil if the list has neither.
func cpuAndMemory(list corev1.ResourceList) corev1.ResourceList {
	return only(list, corev1.ResourceCPU, corev1.ResourceMemory)
}
