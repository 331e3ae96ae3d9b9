// Package trim removes from objects what no part of the operator reads, before a cache keeps them: a cluster has
// many more of them than of anything else in memory. A field that is removed here is missing in every cached
// object; code that needs such a field must first keep it here.
//
// The way of an object: Object finds its kind and calls the function for it (trim.go, kinds.go). That function
// keeps the fields that are listed in it. Then bounds cut down objects that are unusually large (bound.go), and
// equal texts and lists of several objects are made one in memory (share.go).
//
// The functions are transforms of informers (cache.TransformFunc). They change the object that they are given,
// which is the informer's own, and let unknown types pass. What is left may be shared among objects, so it must
// not be changed in place: caches hand out copies, and a reader that asks for no copy only reads. Objects that are
// read without a cache are whole.
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

// Object trims an object of any kind that is cached. Of a kind that is not known here, only metadata is removed.
// The error is always nil; it is part of the type of a transform.
// It is the default transform of the operator's caches.
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
		vertical(of)
	case *metav1.PartialObjectMetadata:
		namespace(of)
	// This case comes after the single kinds, which are not workloads, and accepts every kind that can own pods.
	case workload.Object:
		if _, ok := workload.From(of); ok {
			trimWorkload(of)
		} else {
			identity(of)
		}
	}
	return o, nil
}

// identity keeps only those metadata that say which object it is, how old, and whose. It is not for objects whose
// finalizers the operator changes: a patch of finalizers replaces the whole list, and would remove those that were
// dropped here.
func identity(o metav1.Object) {
	own(o)
	o.SetFinalizers(nil)
	o.SetLabels(nil)
	o.SetAnnotations(nil)
}

// own removes the metadata that are never read of any object. Of the owners the controlling one is kept.
func own(o metav1.Object) {
	o.SetManagedFields(nil)
	o.SetGenerateName("")
	o.SetSelfLink("")
	o.SetOwnerReferences(controllerOf(o))
}

// longestName is how many bytes are kept of a name. It is one more than a valid name may have, so that a name that
// was cut equals no valid one.
const longestName = 254

// controllerOf returns the controlling owner; nil where there is none.
func controllerOf(o metav1.Object) []metav1.OwnerReference {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return nil
	}
	owner.Name, owner.Kind, owner.APIVersion = cut(owner.Name), cut(owner.Kind), cut(owner.APIVersion)
	owner.UID = cut(owner.UID)
	return []metav1.OwnerReference{*owner}
}

// cut returns a text, or the first longestName bytes of a longer one. It copies those, so that the long text can
// be freed.
func cut[T ~string](text T) T {
	if len(text) <= longestName {
		return text
	}
	return T(strings.Clone(string(text[:longestName])))
}

// trimPod keeps of a pod what resizes read: sizes, what decides how and whether they may change, and what the kubelet
// reports.
func trimPod(pod *corev1.Pod) {
	// Metadata first, then spec and status. The labels stay: budgets and owners are found by them.
	resized := podview.ResizedEntries(pod, func(manager string) string { return strings.Clone(cut(manager)) })
	own(pod)
	pod.ManagedFields = resized
	pod.Finalizers = nil
	pod.Annotations = flags(pod.Annotations)
	podSpec(&pod.Spec)
	podStatus(&pod.Status)
	// Bounds come before sharing: only what is kept is worth a place in the tables.
	boundPod(pod)
	share(pod)
}

// podSpec keeps what the resize gates read: where the pod may run, and how it restarts.
func podSpec(spec *corev1.PodSpec) {
	memory := memoryVolumes(spec.Volumes)
	containers(spec, memory)
	*spec = corev1.PodSpec{
		NodeName: spec.NodeName, InitContainers: spec.InitContainers, Containers: spec.Containers, Volumes: memory,
		RestartPolicy: spec.RestartPolicy, TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds, ActiveDeadlineSeconds: spec.ActiveDeadlineSeconds,
		Affinity: requiredNodes(spec.Affinity), NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations,
		Priority: spec.Priority, PriorityClassName: spec.PriorityClassName,
		Overhead: spec.Overhead, Resources: spec.Resources, OS: spec.OS,
	}
}

// templateSpec keeps the containers of a template, its priority, by which cluster policies spare pods, and what the webhook
// reads of a pod: the bridge foretells its decision. Placement and tolerations are read from pods.
func templateSpec(spec *corev1.PodSpec) {
	memory := memoryVolumes(spec.Volumes)
	containers(spec, memory)
	*spec = corev1.PodSpec{
		InitContainers: spec.InitContainers, Containers: spec.Containers, Volumes: memory,
		Priority: spec.Priority, PriorityClassName: cut(spec.PriorityClassName),
		Overhead: cpuAndMemory(spec.Overhead), Resources: podLevel(spec.Resources),
		OS: spec.OS, NodeSelector: only(spec.NodeSelector, corev1.LabelOSStable),
	}
}

// podLevel keeps CPU and memory of a pod's own resources; nil stays nil.
func podLevel(resources *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if resources == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: cpuAndMemory(resources.Requests), Limits: cpuAndMemory(resources.Limits)}
}

// containers trims all containers. memory are the volumes that take from their memory; mounts of others are
// dropped.
func containers(spec *corev1.PodSpec, memory []corev1.Volume) {
	spec.InitContainers, spec.Containers = exact(spec.InitContainers), exact(spec.Containers)
	// takes has the names of the volumes in memory.
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

// memoryVolumes returns the volumes in memory. What is written to them counts as memory of the containers.
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

// container keeps name, program, sizes, policies and mounts of volumes in memory. Long commands become digests
// (clip.ShortTexts), since they are only compared.
func container(c *corev1.Container, memory map[string]bool) {
	var mounts []corev1.VolumeMount
	mounted := map[string]bool{}
	for _, mount := range c.VolumeMounts {
		if memory[mount.Name] && !mounted[mount.Name] {
			// One mount of each volume is enough to know which containers write to it.
			mounts = append(mounts, corev1.VolumeMount{Name: mount.Name})
			mounted[mount.Name] = true
		}
	}
	*c = corev1.Container{
		Name: c.Name, Image: clip.ShortText(c.Image), Command: clip.ShortTexts(c.Command), Args: clip.ShortTexts(c.Args),
		Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules,
		VolumeMounts: mounts,
	}
}

// podStatus removes addresses, images and conditions that are not read.
func podStatus(status *corev1.PodStatus) {
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = "", nil, "", nil
	status.EphemeralContainerStatuses, status.ResourceClaimStatuses, status.ExtendedResourceClaimStatus = nil, nil, nil
	status.Message, status.NominatedNodeName = "", ""
	// The three conditions that are dropped are parts of Ready, or of no interest for a resize.
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

// mostWords is how many bytes are kept of the API server's or the kubelet's words about a pod that does not start. The
// names of pods and policies come first in them, and the reason after.
const mostWords = 512

// rejection keeps of an event which controller could not create a pod, when, and the API server's answer.
func rejection(e *corev1.Event) {
	identity(e)
	of := e.InvolvedObject
	*e = corev1.Event{
		TypeMeta: e.TypeMeta, ObjectMeta: e.ObjectMeta, Reason: cut(e.Reason), Message: clip.Text(e.Message, mostWords),
		InvolvedObject: corev1.ObjectReference{Kind: cut(of.Kind), APIVersion: cut(of.APIVersion), Namespace: cut(of.Namespace), Name: cut(of.Name)},
		FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.LastTimestamp, EventTime: e.EventTime, Series: e.Series,
	}
}

// state removes the messages of a container's state, which a container may write itself, with up to 4 KiB. What the
// kubelet says of a container that it cannot create is cut.
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

// trimNode keeps what a node has, whether it is healthy, and what its kubelet supports. Its images are dropped: they
// are most of a node object.
// Labels stay: affinities and node selectors of pods are matched with them. The boot ID, the kubelet's version and
// the operating system decide whether and how a node resizes.
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

// trimBudget keeps of a PodDisruptionBudget which pods it covers and how many disruptions it allows. A selector that
// is too large becomes one that covers all pods of the namespace, which does no harm: evictions of more pods are
// limited.
func trimBudget(budget *policyv1.PodDisruptionBudget) {
	identity(budget)
	budget.OwnerReferences = nil
	budget.Spec = policyv1.PodDisruptionBudgetSpec{Selector: budget.Spec.Selector}
	if clip.GreatSelector(budget.Spec.Selector) {
		// It counts for all pods of its namespace: a budget too many does no harm.
		budget.Spec.Selector = &metav1.LabelSelector{}
	}
	budget.Status.DisruptedPods, budget.Status.Conditions = nil, nil
}

// trimRecommendation keeps everything but the trace of the computation, which is half of the object, and of that the
// steps that metrics use. Therefore a cached recommendation must not be written back as a whole: changes are sent
// as patches.
func trimRecommendation(rec *v1alpha1.AttuneRecommendation) {
	own(rec)
	// Finalizers stay: the operator changes them.
	rec.Labels, rec.Annotations, rec.OwnerReferences = nil, nil, nil
	// The step "burst" that changed something is what metrics show.
	for i := range rec.Spec.Containers {
		c := &rec.Spec.Containers[i]
		c.Steps = exact(slices.DeleteFunc(c.Steps, func(s v1alpha1.Step) bool {
			return s.Name != "burst" || s.Before == s.After
		}))
	}
}

// trimWorkload keeps of a workload what a recommendation is based on: the containers' sizes, the labels by which
// policies select, and how far it is rolled out. A part of another workload, such as a Deployment's ReplicaSet,
// keeps only its owner.
// Most ReplicaSets and Jobs of a cluster are parts, so this is where most memory is saved; their pods are counted
// with the owner. The text of a template is measured before the placement is dropped, as pods of the template will
// have it.
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
		known.Template.ObjectMeta = metav1.ObjectMeta{Annotations: flags(known.Template.Annotations)}
		templateSpec(&known.Template.Spec)
		boundWorkload(w, known.Template, text)
		shareWorkload(w, known.Template)
	}
}

// part removes all that is not needed to recognise a part of another workload.
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

// specOf keeps the template, the wanted number of pods, and what pauses a rollout. The selector is dropped,
// because pods are found by their owners.
func specOf(w workload.Object) {
	switch o := w.(type) {
	case *appsv1.Deployment:
		o.Spec = appsv1.DeploymentSpec{Replicas: o.Spec.Replicas, Paused: o.Spec.Paused, Template: o.Spec.Template}
	case *appsv1.StatefulSet:
		strategy := appsv1.StatefulSetUpdateStrategy{Type: o.Spec.UpdateStrategy.Type}
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
			strategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: rolling.Partition}
		}
		o.Spec = appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas, UpdateStrategy: strategy, Template: o.Spec.Template}
	case *appsv1.DaemonSet:
		o.Spec = appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: o.Spec.UpdateStrategy.Type}, Template: o.Spec.Template}
	case *appsv1.ReplicaSet:
		o.Spec = appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Template: o.Spec.Template}
	case *batchv1.Job:
		o.Spec = batchv1.JobSpec{Parallelism: o.Spec.Parallelism, Template: o.Spec.Template}
	case *workload.ArgoRollout:
		if ref := o.Spec.WorkloadRef; ref != nil {
			ref.APIVersion, ref.Kind, ref.Name = cut(ref.APIVersion), cut(ref.Kind), cut(ref.Name)
		}
	case *batchv1.CronJob:
		job := o.Spec.JobTemplate.Spec
		o.Spec = batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Parallelism: job.Parallelism, Template: job.Template}}}
	}
}

// status removes the conditions, which repeat the counts in words. For a Job it keeps whether it has ended, for a
// Deployment that its pods are rejected.
func status(w workload.Object) {
	switch o := w.(type) {
	case *appsv1.Deployment:
		rejected := exact(slices.DeleteFunc(o.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return !workload.FailsToCreate(c) }))
		if o.Status.Conditions = nil; len(rejected) > 0 {
			c := rejected[0]
			o.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: c.Type, Status: c.Status, Reason: workload.FailedCreate, LastTransitionTime: c.LastTransitionTime, Message: clip.Text(c.Message, mostWords),
			}}
		}
	case *appsv1.StatefulSet:
		o.Status.Conditions = nil
	case *appsv1.DaemonSet:
		o.Status.Conditions = nil
	case *appsv1.ReplicaSet:
		o.Status.Conditions = nil
	case *batchv1.Job:
		// A Job has no counts that say whether it has ended, so one condition takes the place of its status.
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

// exact returns a list without spare capacity. Decoding a list leaves up to as much again unused.
func exact[T any](list []T) []T {
	if len(list) == 0 || len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// longestFlag is how many bytes are kept of an annotation that switches something on or off. longestNote is the
// same for the webhook's own annotation. Longer values could only serve to fill the operator's memory.
const longestFlag, longestNote = 64, 16 << 10

// kept are the annotations that the operator reads, with the bytes that are kept of each.
var kept = func() map[string]int {
	of := map[string]int{v1alpha1.SeededAnnotation: longestNote, corev1.MirrorPodAnnotationKey: longestFlag}
	for _, name := range []string{
		v1alpha1.SkipAnnotation, v1alpha1.PausedAnnotation, v1alpha1.ResumedAnnotation, v1alpha1.UndoAnnotation,
		workload.TooLargeAnnotation,
		workload.KarpenterDoNotDisrupt, workload.KarpenterDoNotEvict, workload.AutoscalerSafe, workload.DeschedulerPrefersNot,
	} {
		of[name] = longestFlag
	}
	return of
}()

// flags removes the annotations that the operator does not read. A value that is too long is cut, so that the
// annotation is still there; a note of the webhook that is too long is removed, because half of it could not be
// decoded.
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
