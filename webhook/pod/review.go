package pod

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// review is the part of an AdmissionReview that is read. Decoding only that part takes a fraction of the time and
// memory of a whole pod.
type review struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Request    *request `json:"request"`
}

// answerable reports whether a review has a request with a UID, and no names so long that an answer should not repeat them.
func (r *review) answerable() bool {
	return r.Request != nil && r.Request.UID != "" && max(len(r.Request.UID), len(r.APIVersion), len(r.Kind)) <= 128
}

// request is the part of an admission request that is read. Namespace is the pod's: the object itself may not have it
// yet.
type request struct {
	UID         string                      `json:"uid"`
	Namespace   string                      `json:"namespace"`
	Operation   string                      `json:"operation"`
	SubResource string                      `json:"subResource"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	DryRun      bool                        `json:"dryRun"`
	Object      Pod                         `json:"object"`
}

// createsPod reports whether the request creates a pod.
func (r *request) createsPod() bool {
	return r.Operation == "CREATE" && r.SubResource == "" && r.Resource.Group == "" && r.Resource.Resource == "pods"
}

// Pod is the part of a pod that sizing reads; the decoder skips the rest.
type Pod struct {
	// Metadata has the labels, annotations and owners.
	Metadata Metadata `json:"metadata"`
	// Spec has the containers.
	Spec Spec `json:"spec"`
}

// Metadata is the part of a pod's metadata that sizing reads. At admission a pod may have neither a name nor a
// namespace.
type Metadata struct {
	// Labels contain the template generation of the pod.
	Labels map[string]string `json:"labels"`
	// Annotations can opt the pod out, and hold the annotation of an earlier call.
	Annotations map[string]string `json:"annotations"`
	// OwnerReferences lead to the workload.
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
}

// Spec is the part of a pod's spec that sizing reads.
type Spec struct {
	// Containers are the regular ones, InitContainers also hold native sidecars.
	Containers     []Container `json:"containers"`
	InitContainers []Container `json:"initContainers"`
	// Volumes are only the memory-backed ones.
	Volumes memoryVolumes `json:"volumes"`
	// Resources at pod level; nil if the pod has none. Pods with requests or limits there are not sized.
	Resources *struct {
		Requests, Limits map[string]json.RawMessage
	} `json:"resources"`
	// SchedulingGates and SchedulingGroup report whether the pod has them.
	SchedulingGates filled `json:"schedulingGates"`
	SchedulingGroup filled `json:"schedulingGroup"`
	// Overhead of the runtime class, which quotas count.
	Overhead Quantities `json:"overhead"`
	// PriorityClassName and Priority decide whether a cluster policy may lower the pod; the API server sets the
	// priority before it calls webhooks.
	PriorityClassName string `json:"priorityClassName"`
	Priority          *int32 `json:"priority"`
	// OS is nil if the pod does not set it; Windows pods are not sized. Most pods set it only in NodeSelector.
	OS *struct {
		Name string `json:"name"`
	} `json:"os"`
	NodeSelector struct {
		OS string `json:"kubernetes.io/os"`
	} `json:"nodeSelector"`
}

// Container is the part of a container that sizing reads.
type Container struct {
	// Name that the seed is found by.
	Name string `json:"name"`
	// RestartPolicy of an init container; Always makes it a native sidecar.
	RestartPolicy string `json:"restartPolicy"`
	// Resources is nil if the container has none.
	Resources *Requirements `json:"resources"`
	// VolumeMounts are decoded only in a pod with memory-backed volumes (memoryVolumes.mountedBy).
	VolumeMounts json.RawMessage `json:"volumeMounts"`
	// Env, Command and Args say how large its heap may be.
	Env     variables `json:"env"`
	Command arguments `json:"command"`
	Args    arguments `json:"args"`
	// ResizePolicy lists the changes that restart the container.
	ResizePolicy []struct {
		ResourceName  string `json:"resourceName"`
		RestartPolicy string `json:"restartPolicy"`
	} `json:"resizePolicy"`
}

// filled reports whether an object or list has anything in it.
type filled bool

// UnmarshalJSON accepts every value.
func (f *filled) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "null", "{}", "[]":
	default:
		*f = true
	}
	return nil
}

// ownResources reports whether the pod has requests or limits at pod level. An empty object counts as none.
func (s *Spec) ownResources() bool {
	return s.Resources != nil && len(s.Resources.Requests)+len(s.Resources.Limits) > 0
}

// variables is the heap size in the environment of a container; nil: none. A pointer keeps containers small.
type variables struct{ told *podview.Told }

// UnmarshalJSON decodes nothing if no variable can set a heap size, which saves the allocations for most containers.
func (v *variables) UnmarshalJSON(text []byte) error {
	if !podview.MaySetHeap(text) {
		return nil
	}
	var all []struct{ Name, Value string }
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	v.told = &podview.Told{}
	for i := range all {
		v.told.AddVariable(all[i].Name, all[i].Value)
	}
	return nil
}

// arguments is the heap size in the command or the arguments of a container; nil: none.
type arguments struct{ told *podview.Told }

// UnmarshalJSON is that of variables.
func (a *arguments) UnmarshalJSON(text []byte) error {
	if !podview.MaySetHeap(text) {
		return nil
	}
	var all []string
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	a.told = &podview.Told{}
	a.told.AddArguments(all)
	return nil
}

// memoryVolumes are the memory-backed volumes of a pod: few pods have any.
type memoryVolumes []volume

// volume is the part of a volume that sizing reads.
type volume struct {
	Name     string `json:"name"`
	EmptyDir *struct {
		Medium    corev1.StorageMedium      `json:"medium"`
		SizeLimit *workload.BoundedQuantity `json:"sizeLimit"`
	} `json:"emptyDir"`
}

// UnmarshalJSON decodes nothing if no volume can be memory-backed, which saves the allocations for most pods.
func (v *memoryVolumes) UnmarshalJSON(text []byte) error {
	if !bytes.Contains(text, []byte(corev1.StorageMediumMemory)) {
		return nil
	}
	var all []volume
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*v = slices.DeleteFunc(all, func(v volume) bool { return v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory })
	return nil
}

// mountedBy returns the volumes that a container mounts. Mounts that cannot be read count as a volume without a size
// limit, which keeps the container's memory limit.
func (v memoryVolumes) mountedBy(c *Container) (mounted podview.MemoryVolumes) {
	if len(c.VolumeMounts) == 0 {
		return mounted
	}
	var mounts []struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(c.VolumeMounts, &mounts) != nil {
		return podview.MemoryVolumes{Unbounded: true}
	}
	for i := range v {
		for j := range mounts {
			if mounts[j].Name != v[i].Name {
				continue
			}
			if limit := v[i].EmptyDir.SizeLimit; limit != nil {
				mounted.Add(v[i].EmptyDir.Medium, &limit.Quantity)
			} else {
				mounted.Add(v[i].EmptyDir.Medium, nil)
			}
			break // a volume that is mounted twice counts once
		}
	}
	return mounted
}

// Requirements are the requests and limits of a container. A nil list does not exist in the object, and a patch must
// add it.
type Requirements struct {
	// Requests is nil if the object has no such list.
	Requests *Quantities `json:"requests"`
	// Limits is nil if the object has no such list.
	Limits *Quantities `json:"limits"`
}

// requests and limits are nil-safe: a container without resources has neither list.
func (r *Requirements) requests() *Quantities {
	if r == nil {
		return nil
	}
	return r.Requests
}

func (r *Requirements) limits() *Quantities {
	if r == nil {
		return nil
	}
	return r.Limits
}

// Quantities hold the two resources that attune sizes. Zero ones count as absent. BoundedQuantity rejects numbers
// that would take long to parse.
type Quantities struct {
	// CPU in cores, as Kubernetes writes it.
	CPU workload.BoundedQuantity `json:"cpu"`
	// Memory in bytes.
	Memory workload.BoundedQuantity `json:"memory"`
}

// respond writes the AdmissionReview that answers another one, with the same API version. The reason goes into the
// API server's audit log; the creator of the pod does not see it.
func respond(in *review, d *Decision) []byte {
	b := make([]byte, 0, 512+2*len(d.Patch))
	b = append(b, `{"apiVersion":`...)
	b = appendString(b, in.APIVersion)
	b = append(b, `,"kind":`...)
	b = appendString(b, in.Kind)
	b = append(b, `,"response":{"allowed":true,"uid":`...)
	b = appendString(b, in.Request.UID)
	b = append(b, `,"auditAnnotations":{"decision":`...)
	b = appendString(b, string(d.Reason))
	b = append(b, '}')
	if len(d.Patch) > 0 {
		b = append(b, `,"patchType":"JSONPatch","patch":"`...)
		b = base64.StdEncoding.AppendEncode(b, d.Patch)
		b = append(b, '"')
	}
	return append(b, "}}"...)
}
