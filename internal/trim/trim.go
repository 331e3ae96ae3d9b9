// Package trim removes unused fields from objects before a cache stores them: cached objects are most of the operator's
// memory. A field that is removed here is missing in every cached object; code that needs such a field must first keep
// it here.
//
// The path of an object: Object calls the function for its kind (trim.go, kinds.go), which keeps the listed fields.
// Then limits cut unusually large objects (bound.go), and objects share equal strings and lists in memory (share.go).
//
// The functions are transforms of informers (cache.TransformFunc). They change the given object, which belongs to the
// informer, and return other values unchanged. The result may share memory with other objects, so do not change it in
// place: caches return copies, and a reader without a copy only reads. Objects that are read without a cache are whole.
package trim

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// Object trims an object of any cached kind. It is the default transform of the operator's caches. Of an API
// object of an unknown kind it removes only metadata. The error is always nil; the type of a transform requires it.
func Object(o any) (any, error) {
	switch of := o.(type) {
	case *corev1.Pod:
		trimPod(of)
	case *corev1.Node:
		trimNode(of)
	case *policyv1.PodDisruptionBudget:
		trimBudget(of)
	case *v1alpha1.AttuneRecommendation:
		trimRecommendation(of)
	case *corev1.Event:
		rejection(of)
	case *v1alpha1.AttunePolicy:
		policy(of)
	case *v1alpha1.AttuneClusterPolicy:
		clusterPolicy(of)
	case *v1alpha1.AttuneDefaults:
		defaults(of, &of.Spec)
	case *v1alpha1.AttuneNamespaceDefaults:
		defaults(of, &of.Spec)
	case *autoscalingv2.HorizontalPodAutoscaler:
		horizontal(of)
	case *unstructured.Unstructured:
		scaler(of)
	case *metav1.PartialObjectMetadata:
		namespace(of)
	// This case comes after the kinds above, which are not workloads. It accepts every kind that can own pods.
	case workload.Object:
		if _, ok := workload.From(of); ok {
			trimWorkload(of)
		} else {
			identity(of)
		}
	}
	return o, nil
}

// identity keeps only the metadata that identifies an object, its age and its controller. Do not use it for objects
// whose finalizers the operator patches: such a patch replaces the whole list and would remove the dropped finalizers.
func identity(o metav1.Object) {
	own(o)
	o.SetFinalizers(nil)
	o.SetLabels(nil)
	o.SetAnnotations(nil)
}

// own removes the metadata that is not read of any object. It keeps only the controlling owner.
func own(o metav1.Object) {
	o.SetManagedFields(nil)
	o.SetGenerateName("")
	o.SetSelfLink("")
	o.SetOwnerReferences(controllerOf(o))
}

// longestName is the size in bytes that cut keeps of a name. It is one more than a valid name may have, so that a cut
// name never equals a valid one.
const longestName = 254

// controllerOf returns the controlling owner; nil if there is no controller.
func controllerOf(o metav1.Object) []metav1.OwnerReference {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return nil
	}
	owner.Name, owner.Kind, owner.APIVersion = cut(owner.Name), cut(owner.Kind), cut(owner.APIVersion)
	owner.UID = cut(owner.UID)
	return []metav1.OwnerReference{*owner}
}

// cut returns a string, or a copy of the first longestName bytes of a longer one, without a partial character at the
// end. The copy lets the long string be freed.
func cut[T ~string](text T) T {
	if len(text) <= longestName {
		return text
	}
	return T(clip.Text(string(text), longestName))
}

// trimPod keeps the fields of a pod that resizes read: sizes, constraints on their changes, and the status from the
// kubelet.
func trimPod(pod *corev1.Pod) {
	// Metadata first, then spec and status. The labels stay: budgets and owners use them.
	resized := podview.ResizedEntries(pod, func(manager string) string { return strings.Clone(cut(manager)) })
	own(pod)
	pod.ManagedFields = resized
	pod.Finalizers = nil
	pod.Annotations = flags(pod.Annotations)
	podSpec(&pod.Spec)
	podStatus(&pod.Status)
	// Limits come before sharing: only kept fields are worth a place in the tables.
	boundPod(pod)
	share(pod)
}

// podSpec keeps the fields that the resize gates read: scheduling constraints and restart policies.
func podSpec(spec *corev1.PodSpec) {
	memory := memoryVolumes(spec.Volumes)
	containers(spec, memory)
	*spec = corev1.PodSpec{
		NodeName: spec.NodeName, InitContainers: spec.InitContainers, Containers: spec.Containers, Volumes: memory,
		RestartPolicy: spec.RestartPolicy, TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds, ActiveDeadlineSeconds: spec.ActiveDeadlineSeconds,
		Affinity: requiredNodes(spec.Affinity), NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations,
		Priority: spec.Priority, PriorityClassName: spec.PriorityClassName,
		Overhead: spec.Overhead, Resources: spec.Resources, OS: spec.OS,
		SchedulingGates: gates(spec.SchedulingGates), SchedulingGroup: group(spec.SchedulingGroup),
	}
}

// gates keeps whether a pod has scheduling gates.
func gates(gates []corev1.PodSchedulingGate) []corev1.PodSchedulingGate {
	if len(gates) == 0 {
		return nil
	}
	return []corev1.PodSchedulingGate{{Name: cut(gates[0].Name)}}
}

// group keeps whether a pod has a scheduling group.
func group(group *corev1.PodSchedulingGroup) *corev1.PodSchedulingGroup {
	if group == nil {
		return nil
	}
	return &corev1.PodSchedulingGroup{}
}

// templateSpec keeps the containers of a template; its priority, because cluster policies spare pods by it; the fields
// that decide on which nodes its pods may run, because its largest node depends on them; and the fields of a pod that
// the webhook reads, because the bridge predicts its decision.
func templateSpec(spec *corev1.PodSpec) {
	memory := memoryVolumes(spec.Volumes)
	containers(spec, memory)
	*spec = corev1.PodSpec{
		InitContainers: spec.InitContainers, Containers: spec.Containers, Volumes: memory,
		Priority: spec.Priority, PriorityClassName: cut(spec.PriorityClassName),
		Overhead: cpuAndMemory(spec.Overhead), Resources: podLevel(spec.Resources),
		OS: spec.OS, NodeSelector: spec.NodeSelector, Affinity: requiredNodes(spec.Affinity), Tolerations: spec.Tolerations,
		SchedulingGates: gates(spec.SchedulingGates), SchedulingGroup: group(spec.SchedulingGroup),
	}
}

// podLevel keeps CPU and memory of pod-level resources; nil stays nil.
func podLevel(resources *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if resources == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: cpuAndMemory(resources.Requests), Limits: cpuAndMemory(resources.Limits)}
}

// containers trims all containers. memory are the memory-backed volumes; mounts of other volumes are dropped.
func containers(spec *corev1.PodSpec, memory []corev1.Volume) {
	spec.InitContainers, spec.Containers = exact(spec.InitContainers), exact(spec.Containers)
	// takes has the names of the memory-backed volumes.
	takes := make(map[string]bool, len(memory))
	for _, v := range memory {
		takes[v.Name] = true
	}
	for _, of := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range of {
			container(&of[i], takes)
		}
	}
}

// requiredNodes keeps the part of an affinity that excludes nodes; preferences are dropped.
func requiredNodes(affinity *corev1.Affinity) *corev1.Affinity {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
	}}
}

// memoryVolumes returns the memory-backed volumes. Their content counts as memory of the containers.
func memoryVolumes(volumes []corev1.Volume) []corev1.Volume {
	var memory []corev1.Volume
	for _, v := range volumes {
		if v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory {
			memory = append(memory, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: v.EmptyDir.Medium, SizeLimit: v.EmptyDir.SizeLimit},
			}})
		}
	}
	return memory
}

// container keeps the name, command, sizes, policies, mounts of memory-backed volumes, and what the environment says about
// memory. Long commands become digests (clip.ShortTexts), because they are only compared.
func container(c *corev1.Container, memory map[string]bool) {
	var mounts []corev1.VolumeMount
	mounted := map[string]bool{}
	for _, mount := range c.VolumeMounts {
		if memory[mount.Name] && !mounted[mount.Name] {
			// One mount per volume shows which containers use it.
			mounts = append(mounts, corev1.VolumeMount{Name: mount.Name})
			mounted[mount.Name] = true
		}
	}
	*c = corev1.Container{
		Name: c.Name, Image: clip.ShortText(c.Image), Command: clip.ShortTexts(c.Command), Args: clip.ShortTexts(c.Args),
		Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules,
		VolumeMounts: mounts, Env: podview.MemoryVariables(c),
	}
}

// podStatus removes addresses, images and conditions that are not read.
func podStatus(status *corev1.PodStatus) {
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = "", nil, "", nil
	status.EphemeralContainerStatuses, status.ResourceClaimStatuses, status.ExtendedResourceClaimStatus = nil, nil, nil
	status.Message, status.NominatedNodeName = "", ""
	// The three dropped conditions are parts of Ready, or do not matter for a resize.
	status.Conditions = exact(slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodInitialized || c.Type == corev1.ContainersReady || c.Type == corev1.PodReadyToStartContainers
	}))
	status.InitContainerStatuses, status.ContainerStatuses = exact(status.InitContainerStatuses), exact(status.ContainerStatuses)
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			s.Image, s.ImageID = "", ""
			s.VolumeMounts, s.User, s.AllocatedResourcesStatus = nil, nil, nil
			state(&s.State)
			state(&s.LastTerminationState)
		}
	}
}

// mostWords is the size limit in bytes of a message from the API server or kubelet about a pod that does not start.
// Such a message has the names of pods and policies first, then the reason: that of a StatefulSet names the pod three
// times (63 bytes each) and a quota (253 bytes) before the exceeded resources.
const mostWords = 1024

// rejection keeps of an event which controller could not create a pod, when, and the API server's message.
func rejection(e *corev1.Event) {
	identity(e)
	of := e.InvolvedObject
	*e = corev1.Event{
		TypeMeta: e.TypeMeta, ObjectMeta: e.ObjectMeta, Reason: cut(e.Reason), Message: clip.Text(e.Message, mostWords),
		InvolvedObject: corev1.ObjectReference{Kind: cut(of.Kind), APIVersion: cut(of.APIVersion), Namespace: cut(of.Namespace), Name: cut(of.Name)},
		FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.LastTimestamp, EventTime: e.EventTime, Series: e.Series,
	}
}

// state removes the messages of a container's state: a container may write up to 4 KiB itself. It shortens the
// kubelet's message about a container that cannot be created.
func state(s *corev1.ContainerState) {
	if s.Waiting != nil {
		switch s.Waiting.Reason {
		case "CreateContainerError", "CreateContainerConfigError", "RunContainerError":
			s.Waiting.Message = clip.Text(s.Waiting.Message, mostWords)
		default:
			s.Waiting.Message = ""
		}
	}
	if s.Terminated != nil {
		s.Terminated.Message = ""
	}
}

// trimNode keeps the capacity and health of a node, and the features that its kubelet supports. It drops the images:
// they are most of a node object. Labels stay: affinities and node selectors of pods match them. The boot ID, the
// kubelet version and the operating system decide whether and how pods on the node can be resized.
func trimNode(node *corev1.Node) {
	own(node)
	node.Annotations, node.Finalizers = nil, nil
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable}
	status := node.Status
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.Reason, c.Message = "", ""
	}
	info := status.NodeInfo
	node.Status = corev1.NodeStatus{
		Capacity: status.Capacity, Allocatable: status.Allocatable, Conditions: status.Conditions, Addresses: status.Addresses,
		DaemonEndpoints: status.DaemonEndpoints, DeclaredFeatures: status.DeclaredFeatures,
		NodeInfo: corev1.NodeSystemInfo{BootID: info.BootID, KubeletVersion: info.KubeletVersion, OperatingSystem: info.OperatingSystem},
	}
	boundNode(node)
}

// trimBudget keeps which pods a PodDisruptionBudget covers and how many disruptions it allows. A selector that is too
// large becomes one that covers all pods of the namespace. This is harmless: it limits evictions of more pods.
func trimBudget(budget *policyv1.PodDisruptionBudget) {
	identity(budget)
	budget.OwnerReferences = nil
	budget.Spec = policyv1.PodDisruptionBudgetSpec{Selector: budget.Spec.Selector}
	if clip.GreatSelector(budget.Spec.Selector) {
		// It applies to all pods of its namespace: an unnecessary budget is harmless.
		budget.Spec.Selector = &metav1.LabelSelector{}
	}
	budget.Status.DisruptedPods, budget.Status.Conditions = nil, nil
}

// trimRecommendation drops the trace of the computation, which is half of the object, except the steps that metrics
// use. So a cached recommendation must not be written back as a whole: changes are sent as patches.
func trimRecommendation(rec *v1alpha1.AttuneRecommendation) {
	own(rec)
	// Finalizers stay: the operator patches them.
	rec.Labels, rec.Annotations, rec.OwnerReferences = nil, nil, nil
	// Metrics show the step "burst" if it changed the amount.
	for i := range rec.Spec.Containers {
		c := &rec.Spec.Containers[i]
		c.Steps = exact(slices.DeleteFunc(c.Steps, func(s v1alpha1.Step) bool {
			return s.Name != "burst" || s.Before == s.After
		}))
	}
}

// trimWorkload keeps the fields that a recommendation is based on: the containers' sizes, the labels that policies
// select by, and the rollout status. A part of another workload, such as the ReplicaSet of a Deployment, keeps only its
// owner. Most ReplicaSets and Jobs of a cluster are parts, so this saves most of the memory; their pods count with the
// owner. The text of a template is measured before its scheduling constraints are dropped, because its pods will have
// them.
func trimWorkload(w workload.Object) {
	own(w)
	w.SetFinalizers(nil)
	w.SetAnnotations(flags(w.GetAnnotations()))
	specOf(w)
	status(w)
	switch known, ok := workload.From(w); {
	case ok && known.Part():
		part(w)
	case known.Template == nil:
		boundLabels(w)
	default:
		text := textOf(known.Template.Labels, &known.Template.Spec)
		known.Template.ObjectMeta = metav1.ObjectMeta{Annotations: flags(known.Template.Annotations), Labels: workload.IdentityLabels(known.Template.Labels)}
		templateSpec(&known.Template.Spec)
		boundWorkload(w, known.Template, text)
		shareWorkload(w, known.Template)
	}
}

// selector shares the labels, which equal those of other objects.
func selector(of *metav1.LabelSelector) *metav1.LabelSelector {
	switch {
	case of == nil:
		return nil
	case clip.GreatSelector(of):
		return clip.LeftOut()
	}
	return &metav1.LabelSelector{MatchLabels: sharedMap(of.MatchLabels), MatchExpressions: of.MatchExpressions}
}

// part removes all fields that do not identify a part of another workload.
func part(w workload.Object) {
	w.SetAnnotations(nil)
	w.SetLabels(nil)
	switch o := w.(type) {
	case *appsv1.ReplicaSet:
		o.Spec = appsv1.ReplicaSetSpec{}
	case *batchv1.Job:
		o.Spec = batchv1.JobSpec{}
	}
}

// specOf keeps the template, the desired number of pods, the selector of a workload that an HPA may scale, and the fields
// that pause a rollout. The other selectors are dropped, because pods are found by their owners.
func specOf(w workload.Object) {
	switch o := w.(type) {
	case *appsv1.Deployment:
		o.Spec = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas, Paused: o.Spec.Paused, Template: o.Spec.Template, Selector: selector(o.Spec.Selector)}
	case *appsv1.StatefulSet:
		strategy := appsv1.StatefulSetUpdateStrategy{Type: o.Spec.UpdateStrategy.Type}
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
			strategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: rolling.Partition}
		}
		o.Spec = appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas, UpdateStrategy: strategy, Template: o.Spec.Template, Selector: selector(o.Spec.Selector)}
	case *appsv1.DaemonSet:
		o.Spec = appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: o.Spec.UpdateStrategy.Type}, Template: o.Spec.Template}
	case *appsv1.ReplicaSet:
		o.Spec = appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Template: o.Spec.Template, Selector: selector(o.Spec.Selector)}
	case *batchv1.Job:
		o.Spec = batchv1.JobSpec{Parallelism: o.Spec.Parallelism, Template: o.Spec.Template}
	case *workload.ArgoRollout:
		if ref := o.Spec.WorkloadRef; ref != nil {
			ref.APIVersion, ref.Kind, ref.Name = cut(ref.APIVersion), cut(ref.Kind), cut(ref.Name)
		}
	case *batchv1.CronJob:
		job := o.Spec.JobTemplate.Spec
		labels := metav1.ObjectMeta{Labels: only(o.Spec.JobTemplate.Labels, workload.KueueQueue)}
		o.Spec = batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: labels, Spec: batchv1.JobSpec{Parallelism: job.Parallelism, Template: job.Template}}}
	}
}

// status removes the conditions, which repeat the counts. For a Job it keeps whether it has ended, for a Deployment
// whether the API server rejects its pods, and how its rollout goes.
func status(w workload.Object) {
	switch o := w.(type) {
	case *appsv1.Deployment:
		var left []appsv1.DeploymentCondition
		for _, c := range o.Status.Conditions {
			switch c = (appsv1.DeploymentCondition{Type: cut(c.Type), Status: cut(c.Status), Reason: cut(c.Reason), LastTransitionTime: c.LastTransitionTime, Message: clip.Text(c.Message, mostWords)}); {
			case len(left) == 2: // the API server allows one of each type
			case workload.FailsToCreate(c):
				left = append(left, c)
			case workload.Keeps(c):
				c.Message = ""
				left = append(left, c)
			}
		}
		o.Status.Conditions = exact(left)
	case *appsv1.StatefulSet:
		o.Status.Conditions = nil
	case *appsv1.DaemonSet:
		o.Status.Conditions = nil
	case *appsv1.ReplicaSet:
		o.Status.Conditions = nil
	case *batchv1.Job:
		// A Job has no counts that show whether it has ended, so one condition replaces its status.
		ended := workload.JobEnded(o)
		o.Status = batchv1.JobStatus{}
		if ended {
			o.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
	case *batchv1.CronJob:
		o.Status = batchv1.CronJobStatus{}
	case *workload.ScaledObject:
		o.Status.CurrentRevision, o.Status.UpdateRevision = cut(o.Status.CurrentRevision), cut(o.Status.UpdateRevision)
	case *workload.ArgoRollout:
		of := &o.Status
		of.ObservedGeneration, of.CurrentPodHash, of.StableRS, of.Phase = cut(of.ObservedGeneration), cut(of.CurrentPodHash), cut(of.StableRS), cut(of.Phase)
	}
}

// exact returns a list without spare capacity. Decoding can leave half of the capacity unused.
func exact[T any](list []T) []T {
	if len(list) == 0 || len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// longestFlag is the size limit in bytes of an annotation that enables or disables a feature, longestNote of the
// webhook's own annotation. Longer values could only fill the operator's memory.
const longestFlag, longestNote = 64, 16 << 10

// kept has the annotations of pods and workloads that the operator reads, with the size limit of each in bytes. Namespaces
// keep none.
var kept = func() map[string]int {
	of := map[string]int{v1alpha1.SeededAnnotation: longestNote, corev1.MirrorPodAnnotationKey: longestFlag}
	for _, name := range []string{
		v1alpha1.SkipAnnotation, v1alpha1.PausedAnnotation, v1alpha1.ResumedAnnotation, v1alpha1.UndoAnnotation, v1alpha1.PromoteAnnotation,
		workload.TooLargeAnnotation, appsv1.DeprecatedTemplateGeneration,
		podview.KueueWorkload, workload.KarpenterDoNotDisrupt, workload.KarpenterDoNotEvict, workload.AutoscalerSafe, workload.DeschedulerPrefersNot,
	} {
		of[name] = longestFlag
	}
	return of
}()

// flags removes the annotations that the operator does not read. It cuts a long value, so that the annotation still
// exists. It removes a long annotation of the webhook, because a part of it cannot be decoded.
func flags(annotations map[string]string) map[string]string {
	maps.DeleteFunc(annotations, func(name, value string) bool {
		most, read := kept[name]
		return !read || most == longestNote && len(value) > most
	})
	for name, value := range annotations {
		if len(value) > kept[name] {
			annotations[name] = strings.Clone(value[:kept[name]])
		}
	}
	return annotations
}
