// Package trim takes out of objects, before a cache keeps them, what nobody here reads: a cluster has many
// more of them than of anything else that is kept in memory. What it names is gone from every cached object;
// who needs such a field takes it off the lists here first.
//
// Its functions are transforms of informers. They change the object they are given, which is the informer's
// own, and let everything else pass. What is left may be shared among objects, so nobody changes it in place:
// caches hand out copies, and who asks for none only reads.
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
	"attune.io/attune/internal/program"
	"attune.io/attune/internal/workload"
)

// Object trims an object of any kind that is cached; of one that is not known, its metadata.
func Object(o any) (any, error) {
	switch of := o.(type) {
	case *corev1.Pod:
		return Pod(o)
	case *corev1.Node:
		return Node(o)
	case *policyv1.PodDisruptionBudget:
		return Budget(o)
	case *v1alpha1.AttuneRecommendation:
		return Recommendation(o)
	case *v1alpha1.AttunePolicy:
		policy(of)
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
	case workload.Object:
		if _, ok := workload.From(of); ok {
			return Workload(o)
		}
		identity(of)
	}
	return o, nil
}

// identity leaves of an object's metadata which one it is, since when, and whose. Finalizers of policies and
// recommendations are not for it: a list of them is written back whole.
func identity(o metav1.Object) {
	own(o)
	o.SetFinalizers(nil)
	o.SetLabels(nil)
	o.SetAnnotations(nil)
}

// own drops what is nobody's here in any object.
func own(o metav1.Object) {
	o.SetManagedFields(nil)
	o.SetGenerateName("")
	o.SetSelfLink("")
	o.SetOwnerReferences(controllerOf(o))
}

// longestName is the longest text, in bytes, that is kept of a name. It is one more than a name may have, so that what is
// cut is nobody's.
const longestName = 254

// controllerOf is the one owner that somebody reads.
func controllerOf(o metav1.Object) []metav1.OwnerReference {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return nil
	}
	owner.Name, owner.Kind, owner.APIVersion = cut(owner.Name), cut(owner.Kind), cut(owner.APIVersion)
	owner.UID = cut(owner.UID)
	return []metav1.OwnerReference{*owner}
}

// cut is a text, or the beginning of one that is no name.
func cut[T ~string](text T) T {
	if len(text) <= longestName {
		return text
	}
	return T(strings.Clone(string(text[:longestName])))
}

// Pod keeps what resizes look at: sizes, what decides how and whether they may change, and what the node
// says of them.
func Pod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	own(pod)
	pod.Finalizers = nil
	pod.Annotations = flags(pod.Annotations)
	podSpec(&pod.Spec)
	podStatus(&pod.Status)
	boundPod(pod)
	share(pod)
	return pod, nil
}

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

// templateSpec keeps the containers alone: where pods may run, and what they tolerate, is read of pods.
func templateSpec(spec *corev1.PodSpec) {
	containers(spec, nil)
	*spec = corev1.PodSpec{InitContainers: spec.InitContainers, Containers: spec.Containers}
}

func containers(spec *corev1.PodSpec, memory []corev1.Volume) {
	spec.InitContainers, spec.Containers = exact(spec.InitContainers), exact(spec.Containers)
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

// requiredNodes is the part of an affinity that says on which nodes the pod may run at all.
func requiredNodes(affinity *corev1.Affinity) *corev1.Affinity {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
	}}
}

// memoryVolumes are those that take from their containers' memory.
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

func container(c *corev1.Container, memory map[string]bool) {
	var mounts []corev1.VolumeMount
	mounted := map[string]bool{}
	for _, mount := range c.VolumeMounts {
		if memory[mount.Name] && !mounted[mount.Name] {
			mounts = append(mounts, corev1.VolumeMount{Name: mount.Name})
			mounted[mount.Name] = true
		}
	}
	*c = corev1.Container{
		Name: c.Name, Image: program.ShortText(c.Image), Command: program.Short(c.Command), Args: program.Short(c.Args),
		Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules,
		VolumeMounts: mounts,
	}
}

func podStatus(status *corev1.PodStatus) {
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = "", nil, "", nil
	status.EphemeralContainerStatuses, status.ResourceClaimStatuses, status.ExtendedResourceClaimStatus = nil, nil, nil
	status.Message, status.NominatedNodeName = "", ""
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

// state drops what a container said at its end.
func state(s *corev1.ContainerState) {
	if s.Waiting != nil {
		s.Waiting.Message = ""
	}
	if s.Terminated != nil {
		s.Terminated.Message = ""
	}
}

// Node keeps what says how much it has and whether it can resize; not its images.
func Node(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
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
	return node, nil
}

// Budget keeps which pods a PodDisruptionBudget covers and what it allows.
func Budget(o any) (any, error) {
	budget, ok := o.(*policyv1.PodDisruptionBudget)
	if !ok {
		return o, nil
	}
	identity(budget)
	budget.OwnerReferences = nil
	budget.Spec = policyv1.PodDisruptionBudgetSpec{Selector: budget.Spec.Selector}
	if GreatSelector(budget.Spec.Selector) {
		// It counts for all pods of its namespace: a budget too many does no harm.
		budget.Spec.Selector = &metav1.LabelSelector{}
	}
	budget.Status.DisruptedPods, budget.Status.Conditions = nil, nil
	return budget, nil
}

// Recommendation keeps all but the trace of the computation, which is for people and half of the object, and of that
// the steps that metrics tell. What is not kept must not be written back: a change is sent as a patch.
func Recommendation(o any) (any, error) {
	rec, ok := o.(*v1alpha1.AttuneRecommendation)
	if !ok {
		return o, nil
	}
	own(rec)
	rec.Labels, rec.Annotations, rec.OwnerReferences = nil, nil, nil
	for i := range rec.Spec.Containers {
		c := &rec.Spec.Containers[i]
		c.Steps = exact(slices.DeleteFunc(c.Steps, func(s v1alpha1.Step) bool {
			return s.Name != "burst" || s.Before == s.After
		}))
	}
	return rec, nil
}

// Workload keeps of a workload what its recommendation rests on: the containers' sizes, the labels that
// policies select by, how far it is rolled out. A part of another workload is nothing but its owner's.
func Workload(o any) (any, error) {
	w, ok := o.(workload.Object)
	if !ok {
		return o, nil
	}
	own(w)
	w.SetFinalizers(nil)
	w.SetAnnotations(flags(w.GetAnnotations()))
	specOf(w)
	status(w)
	if known, ok := workload.From(w); ok && known.Part() {
		part(w)
	} else if known.Template != nil {
		text := textOf(known.Template.Labels, &known.Template.Spec)
		known.Template.ObjectMeta = metav1.ObjectMeta{Annotations: flags(known.Template.Annotations)}
		templateSpec(&known.Template.Spec)
		boundWorkload(w, known.Template, text)
		shareWorkload(w, known.Template)
	}
	return o, nil
}

// part leaves of a Deployment's ReplicaSet or a CronJob's Job what tells that it is one.
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

// specOf keeps the template, how many pods there are to be, and what holds a rollout. Pods are found by their owners.
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
	case *batchv1.CronJob:
		job := o.Spec.JobTemplate.Spec
		o.Spec = batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Parallelism: job.Parallelism, Template: job.Template}}}
	}
}

// status drops the conditions, which repeat in words what the counts say.
func status(w workload.Object) {
	switch o := w.(type) {
	case *appsv1.Deployment:
		o.Status.Conditions = nil
	case *appsv1.StatefulSet:
		o.Status.Conditions = nil
	case *appsv1.DaemonSet:
		o.Status.Conditions = nil
	case *appsv1.ReplicaSet:
		o.Status.Conditions = nil
	case *batchv1.Job:
		ended := workload.JobEnded(o)
		o.Status = batchv1.JobStatus{}
		if ended {
			o.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
	case *batchv1.CronJob:
		o.Status = batchv1.CronJobStatus{}
	}
}

// exact is a list without room for more: decoding leaves as much again.
func exact[T any](list []T) []T {
	if len(list) == 0 || len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// longestFlag is the longest value, in bytes, that is kept of an annotation that switches something on or off; longestNote
// that of one that was written by the webhook. What is longer is nobody's work but to fill this memory.
const longestFlag, longestNote = 64, 16 << 10

// kept are the annotations that somebody here reads.
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

// flags are the annotations that somebody here reads. Of a longer one the beginning is left, which says that it is there;
// a note of the webhook that is too long is none.
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
