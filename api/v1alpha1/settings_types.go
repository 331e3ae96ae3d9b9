package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PolicySettings are the fields that policies and both kinds of defaults share. All are optional: a field that is not
// set takes its value from the next layer (policy, AttuneNamespaceDefaults, AttuneDefaults, built-in). A list or map
// replaces the list or map of a lower layer.
type PolicySettings struct {
	// MetricsSource sets where usage history comes from. Default: the usage source of attune's installation.
	// +optional
	MetricsSource *MetricsSource `json:"metricsSource,omitempty"`

	// Profile chooses built-in values of other fields. Each field that any layer sets takes precedence over it.
	// Cost: CPU percentile 90 and overhead 10, memory percentile 99 and overhead 15, adaptive.risk High.
	// Balanced: CPU percentile 95 and overhead 15, memory percentile 99 and overhead 20, adaptive.risk Medium.
	// Reliability: CPU percentile 99 and overhead 25, memory percentile 99 and overhead 40, adaptive.risk Low,
	// memory.allowDecrease false. Default: not set.
	// +optional
	Profile *Profile `json:"profile,omitempty"`

	// CPU settings.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || string(self.minAllowed).size() <= 64 && !string(self.minAllowed).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self.minAllowed)) && quantity(string(self.minAllowed)).isGreaterThan(quantity('0'))",message="minAllowed must be a quantity greater than 0, e.g. 50m or 64Mi",fieldPath=".minAllowed"
	// +kubebuilder:validation:XValidation:rule="!has(self.maxAllowed) || string(self.maxAllowed).size() <= 64 && !string(self.maxAllowed).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self.maxAllowed)) && quantity(string(self.maxAllowed)).isGreaterThan(quantity('0'))",message="maxAllowed must be a quantity greater than 0, e.g. 4 or 8Gi",fieldPath=".maxAllowed"
	// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || string(self.minAllowed).size() > 64 || string(self.maxAllowed).size() > 64 || string(self.minAllowed).matches('[eE][-+]?[0-9]{3}') || string(self.maxAllowed).matches('[eE][-+]?[0-9]{3}') || !isQuantity(string(self.minAllowed)) || !isQuantity(string(self.maxAllowed)) || quantity(string(self.minAllowed)).compareTo(quantity(string(self.maxAllowed))) <= 0",message="cpu.minAllowed must be less than or equal to cpu.maxAllowed"
	CPU *CPUSettings `json:"cpu,omitempty"`

	// Memory settings.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || string(self.minAllowed).size() <= 64 && !string(self.minAllowed).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self.minAllowed)) && quantity(string(self.minAllowed)).isGreaterThan(quantity('0'))",message="minAllowed must be a quantity greater than 0, e.g. 50m or 64Mi",fieldPath=".minAllowed"
	// +kubebuilder:validation:XValidation:rule="!has(self.maxAllowed) || string(self.maxAllowed).size() <= 64 && !string(self.maxAllowed).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self.maxAllowed)) && quantity(string(self.maxAllowed)).isGreaterThan(quantity('0'))",message="maxAllowed must be a quantity greater than 0, e.g. 4 or 8Gi",fieldPath=".maxAllowed"
	// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || string(self.minAllowed).size() > 64 || string(self.maxAllowed).size() > 64 || string(self.minAllowed).matches('[eE][-+]?[0-9]{3}') || string(self.maxAllowed).matches('[eE][-+]?[0-9]{3}') || !isQuantity(string(self.minAllowed)) || !isQuantity(string(self.maxAllowed)) || quantity(string(self.minAllowed)).compareTo(quantity(string(self.maxAllowed))) <= 0",message="memory.minAllowed must be less than or equal to memory.maxAllowed"
	Memory *MemorySettings `json:"memory,omitempty"`

	// UpdateStrategy sets how attune applies recommendations, when and how fast.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`

	// Strategy sets how attune computes resources. Workload: the same for every replica. Node: per pod, base demand
	// plus a share of the node's headroom for spikes. Adaptive: calibrated per container from its own history.
	// Built-in default: Workload.
	// +optional
	Strategy *Strategy `json:"strategy,omitempty"`

	// Node holds the settings of the Node strategy.
	// +optional
	Node *NodeSettings `json:"node,omitempty"`

	// Adaptive holds the settings of the Adaptive strategy.
	// +optional
	Adaptive *AdaptiveSettings `json:"adaptive,omitempty"`

	// ExcludedContainers are the names of containers that attune neither gives recommendations for nor changes, e.g.
	// [istio-proxy]. It is the short form of containerPolicies with mode Off. Default: not set, no container is excluded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ExcludedContainers []ContainerName `json:"excludedContainers,omitempty"`

	// ContainerPolicies are the settings of single containers and sidecars. A container uses the entry with its name,
	// otherwise the entry "*", never both. The fields of that entry take precedence over the policy's cpu and memory,
	// field by field. The list of a higher level replaces that of a lower one. Example: [{containerName: app, memory:
	// {maxAllowed: 8Gi}}, {containerName: "*", mode: "Off"}]. Default: not set.
	// +optional
	// +listType=map
	// +listMapKey=containerName
	// +kubebuilder:validation:MaxItems=64
	ContainerPolicies []ContainerPolicy `json:"containerPolicies,omitempty"`

	// Admission sets whether attune sizes new pods of the policy's workloads in the modes Initial, Canary and Auto, in
	// the namespaces that the chart's value webhook.namespaces allows. Disabled: attune only resizes running pods.
	// Built-in default: Enabled.
	// +optional
	Admission *Switch `json:"admission,omitempty"`

	// SLOGuardrails are PromQL conditions that must hold while attune observes a resize, in each mode that resizes
	// running pods. attune asks them every 30 seconds. A violated one reverts the resize at once, and its backoff begins.
	// A query without an answer reverts nothing. Example: [{name: errors, query: "sum(rate(errors_total[5m]))",
	// comparison: "<", threshold: "1"}]. Default: not set, no guardrails.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	SLOGuardrails []SLOGuardrail `json:"sloGuardrails,omitempty"`

	// Paused: attune sets no resources of new pods and starts no resizes. Observation and reverts continue. Running
	// pods keep their present resources. An OOM kill or a crash loop below the original resources restores these,
	// unless autoRevert is false; kubectl attune undo -A restores all pods now. If any layer sets it to true, attune
	// is paused: set paused: true in the AttuneDefaults to stop attune everywhere. Default: false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// ContainerName is the name of a container in a pod.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type ContainerName string

// ContainerPolicy has the settings of one container, or of all containers without an entry of their own.
type ContainerPolicy struct {
	// ContainerName is the name of a container or a sidecar (an init container with restartPolicy Always), e.g. app. "*"
	// stands for every container without an entry of its own. attune sizes no init containers that end.
	ContainerName ContainerName `json:"containerName"`

	// Mode sets whether attune sizes the container. Off: attune gives no recommendation for it and does not change it,
	// as for excludedContainers. Auto for a container that excludedContainers names is an error. Built-in default: Auto.
	// +optional
	Mode *ContainerMode `json:"mode,omitempty"`

	// ControlledResources are the resources that attune sizes, e.g. [memory]. It leaves requests and limits of the other
	// resource as they are, at admission and in running pods, after OOM kills too. Built-in default: [cpu, memory].
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	ControlledResources []ControlledResource `json:"controlledResources,omitempty"`

	// ControlledValues is the value of cpu.controlledValues and memory.controlledValues of the container, unless these
	// are set in the same entry: RequestsAndLimits or RequestsOnly. Default: the policy's.
	// +optional
	ControlledValues *ControlledValues `json:"controlledValues,omitempty"`

	// CPU settings of the container. Default: the policy's.
	// +optional
	CPU *CPUSettings `json:"cpu,omitempty"`

	// Memory settings of the container. Default: the policy's.
	// +optional
	Memory *MemorySettings `json:"memory,omitempty"`
}

// ContainerMode sets whether attune sizes a container.
// +kubebuilder:validation:Enum=Auto;Off
type ContainerMode string

const (
	ContainerAuto ContainerMode = "Auto"
	ContainerOff  ContainerMode = "Off"
)

// ControlledResource is a resource that attune sizes.
// +kubebuilder:validation:Enum=cpu;memory
type ControlledResource string

const (
	ControlledCPU    ControlledResource = "cpu"
	ControlledMemory ControlledResource = "memory"
)

// Profile is a set of built-in values for several fields.
// +kubebuilder:validation:Enum=Cost;Balanced;Reliability
type Profile string

const (
	ProfileCost        Profile = "Cost"
	ProfileBalanced    Profile = "Balanced"
	ProfileReliability Profile = "Reliability"
)

// Strategy sets how attune computes resources.
// +kubebuilder:validation:Enum=Workload;Node;Adaptive
type Strategy string

const (
	StrategyWorkload Strategy = "Workload"
	StrategyNode     Strategy = "Node"
	StrategyAdaptive Strategy = "Adaptive"
)

// MetricsSource sets where usage history comes from.
// +kubebuilder:validation:XValidation:rule="!has(self.historyWindow) || !has(self.queryStep) || duration(self.historyWindow).getSeconds() / duration(self.queryStep).getSeconds() <= 131072",message="historyWindow must have at most 131072 samples at queryStep, e.g. 720h at 20s; the operator may allow fewer (usage.limits.steps)"
type MetricsSource struct {
	// Prometheus is a server with the Prometheus HTTP API: Prometheus, Thanos, Mimir, VictoriaMetrics.
	// +optional
	Prometheus *PrometheusSource `json:"prometheus,omitempty"`

	// Labels that all series have that attune queries, such as cluster if the server stores several clusters, or job,
	// e.g. {cluster: eu-1}. attune does not add them to the queries of sloGuardrails, or to its own series. Default: not
	// set, only those of the chart's value usage.prometheus.matchers.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 64 && name.matches('^[a-zA-Z_][a-zA-Z0-9_]*$') && !(name in ['__name__', 'namespace', 'pod', 'container']) && self[name].size() >= 1)",message="labels must be names of labels other than namespace, pod and container, each with the value that every series has, e.g. {cluster: eu-1}"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// HistoryWindow is how far back attune reads usage, from 1h to 720h, e.g. 336h. Built-in default: 168h; strategy Adaptive:
	// 336h, if usage.limits.steps allows it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1h') && duration(self) <= duration('720h')",message="historyWindow must be a duration between 1h and 720h, e.g. 168h"
	HistoryWindow *Duration `json:"historyWindow,omitempty"`

	// MinimumDataPoints is the least number of samples, one per queryStep, for a recommendation, e.g. 288 for a day at
	// 5m. Below it attune waits for more data. Built-in default: 48, or all of historyWindow if it has fewer.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinimumDataPoints *int32 `json:"minimumDataPoints,omitempty"`

	// QueryStep is the time between two samples of history, from 10s to 1h, e.g. 1m. Built-in default: 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('10s') && duration(self) <= duration('1h')",message="queryStep must be a duration between 10s and 1h, e.g. 5m"
	QueryStep *Duration `json:"queryStep,omitempty"`

	// RateWindow is the window of rate() over CPU counters, at least 30s and at most historyWindow, e.g. 5m. Built-in
	// default: the greater of queryStep and 30s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('30s') && duration(self) <= duration('720h')",message="rateWindow must be a duration of at least 30s and at most historyWindow, e.g. 5m"
	RateWindow *Duration `json:"rateWindow,omitempty"`
}

// LabelValue is the value of a label of a series.
// +kubebuilder:validation:MaxLength=128
type LabelValue string

// Duration is a span of time, e.g. 90s, 5m or 168h.
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
type Duration struct {
	metav1.Duration `json:",inline"`
}

// PrometheusSource sets a server with the Prometheus HTTP API. Only namespaces that the chart's value
// usage.policySources.namespaces allows may set one. A layer that sets an address replaces all server settings of
// lower layers, because credentials must only be sent to the server that they are for.
// +kubebuilder:validation:XValidation:rule="!(has(self.bearerTokenSecret) && has(self.basicAuth))",message="prometheus must not have both bearerTokenSecret and basicAuth: remove one of them"
type PrometheusSource struct {
	// Address is the base URL of the server, e.g. http://prometheus.monitoring:9090. Default: not set, the server of the
	// next layer or of attune's installation.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''",message="prometheus.address must be a URL that begins with http:// or https://, e.g. http://prometheus.monitoring:9090"
	Address string `json:"address,omitempty"`

	// Headers are sent with every request, e.g. {X-Scope-OrgID: shop}. Default: not set, no headers.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Headers map[string]string `json:"headers,omitempty"`

	// QueryParameters are added to every request, e.g. {dedup: "true"}. Default: not set, no parameters.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	QueryParameters map[string]string `json:"queryParameters,omitempty"`

	// BearerTokenSecret is the key of a Secret with a bearer token, in the namespace of the object that sets it. The
	// annotation attune.io/usage-source of the Secret must name the host of the address, e.g.
	// prometheus.monitoring:9090, or http://prometheus.monitoring:9090 to send it without encryption or verification. For
	// AttuneDefaults: a Secret in attune's own namespace that the chart's value
	// usage.defaultsSecrets lists; it needs no annotation. Not together with basicAuth. Example: {name: prometheus, key:
	// token}. Default: not set, no token.
	// +optional
	BearerTokenSecret *SecretKey `json:"bearerTokenSecret,omitempty"`

	// BasicAuth sets a user name and a password, from a Secret with the same requirements as bearerTokenSecret. Not
	// together with bearerTokenSecret. Default: not set, no user name.
	// +optional
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`

	// TLS settings of the connection.
	// +optional
	TLS *SourceTLS `json:"tls,omitempty"`
}

// SecretKey selects one key of a Secret.
type SecretKey struct {
	// Name of the Secret, e.g. prometheus.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in the data of the Secret, e.g. token.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// BasicAuth is a user name with a password from a Secret.
type BasicAuth struct {
	// Username to log in with, e.g. attune.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Username string `json:"username"`
	// PasswordSecret is the key of a Secret with the password, e.g. {name: prometheus, key: password}.
	PasswordSecret SecretKey `json:"passwordSecret"`
}

// SourceTLS holds the TLS settings of a usage source.
type SourceTLS struct {
	// CASecret is the key of a Secret with the CA certificates that attune verifies the certificate of the server
	// with. Default: the CA certificates of the system.
	// +optional
	CASecret *SecretKey `json:"caSecret,omitempty"`
	// ServerName is the name that the server's certificate must have, e.g. prometheus.internal. Default: the host of the
	// address.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
	// InsecureSkipVerify disables the verification of the server's certificate. Default: false.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// ResourceSettings are the settings of one resource. The API server compares amounts of cpu and memory of a policy by
// rules (PolicySettings). In a list of containers these rules would cost more than it allows, so the webhook checks them.
type ResourceSettings struct {
	// Percentile of usage that the request covers, from 1 to 100, e.g. 90. 100 is the peak. Built-in default: 95 for CPU,
	// 99 for memory.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percentile *int32 `json:"percentile,omitempty"`

	// Overhead is the headroom above the percentile, in percent from 0 to 1000, e.g. "20". Built-in default: 20 for
	// CPU, 30 for memory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) <= 1000.0",message="overhead must be a percentage from 0 to 1000 as a string without the sign, e.g. '20'"
	Overhead *Percent `json:"overhead,omitempty"`

	// MinAllowed is the smallest request that attune recommends, e.g. 50m or 64Mi. Default: not set.
	// +optional
	MinAllowed *resource.Quantity `json:"minAllowed,omitempty"`

	// MaxAllowed is the largest request that attune recommends, e.g. 4 or 8Gi. Default: not set.
	// +optional
	MaxAllowed *resource.Quantity `json:"maxAllowed,omitempty"`

	// ControlledValues sets whether limits follow requests. RequestsAndLimits keeps the ratio of limit to request of
	// the container's original resources. RequestsOnly does not change limits. Built-in default: RequestsAndLimits.
	// +optional
	ControlledValues *ControlledValues `json:"controlledValues,omitempty"`

	// MaxChangePercent is the largest change in one resize step, in percent of the pod's present resources, from 1 to
	// 1000, e.g. 100. Built-in default: 50 for CPU, 30 for memory.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxChangePercent *int32 `json:"maxChangePercent,omitempty"`

	// BurstSensitivity is the weight of bursts (peaks above three times the 95th percentile), from 0 to 10, e.g. "0.5".
	// "0" ignores bursts. Built-in default: "0.1".
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) <= 10.0",message="burstSensitivity must be a decimal number from 0 to 10 as a string, e.g. '0.1'"
	BurstSensitivity *Decimal `json:"burstSensitivity,omitempty"`

	// HPA sets what attune does to a request on which a HorizontalPodAutoscaler scales by utilization. Block: it does not
	// change the request. Keep: it changes the request only within the range in which the HPA would have asked for the
	// same number of replicas over the whole history. Retarget (CPU only): the same, while it changes the target utilization
	// of the HPA together with the request, so that the HPA scales at the same usage per pod; where it may not, as Keep.
	// Strategy Node supports neither. Built-in default: Block.
	// +optional
	HPA *HPAHandling `json:"hpa,omitempty"`
}

// HPAHandling sets what attune does to a request on which a HorizontalPodAutoscaler scales.
// +kubebuilder:validation:Enum=Block;Keep;Retarget
type HPAHandling string

// HPABlock: attune does not change the request. HPAKeep: it changes the request only within the range in which the HPA
// keeps the number of replicas. HPARetarget: it changes the target of the HPA together with the request.
const (
	HPABlock    HPAHandling = "Block"
	HPAKeep     HPAHandling = "Keep"
	HPARetarget HPAHandling = "Retarget"
)

// Percent is a number of percent without the percent sign, e.g. "20".
// +kubebuilder:validation:MaxLength=16
type Percent string

// Decimal is a non-negative decimal number, e.g. "0.1".
// +kubebuilder:validation:MaxLength=16
type Decimal string

// ControlledValues sets whether limits follow requests.
// +kubebuilder:validation:Enum=RequestsOnly;RequestsAndLimits
type ControlledValues string

const (
	ControlledRequestsOnly      ControlledValues = "RequestsOnly"
	ControlledRequestsAndLimits ControlledValues = "RequestsAndLimits"
)

// CPUSettings are the settings for CPU.
type CPUSettings struct {
	ResourceSettings `json:",inline"`

	// StartupBoost gives a container more CPU while it starts, and resizes it to its normal size afterwards. In
	// containerPolicies each container may have its own multiplier; the boosts of a pod end together, after the longest
	// duration. Default: not set.
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`

	// Limits sets what happens to the CPU limit of a container that has one; a container without one gets none.
	// Keep: the limit keeps the ratio of the original resources. Remove: new pods have no CPU limit; running pods keep
	// theirs, and pods of the QoS class Guaranteed, and of namespaces that require CPU limits, as well.
	// An object, e.g. {ratio: "3", min: 500m, max: "4"}: the limit is the request times ratio, at least min and at most
	// max. At least one of the three is set; without ratio the original one counts. Guaranteed pods keep request = limit. Not
	// together with controlledValues RequestsOnly. Built-in default: Keep.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Limits *CPULimits `json:"limits,omitempty"`
}

// CPULimits is the word Keep or Remove, or an object with ratio, min and max. Such a union has no structural schema, so
// the validating webhook checks it. Every JSON value decodes without an error: one stored object with an invalid value
// must not keep the operator from reading all others.
type CPULimits struct {
	// JSON is the value as it was written, at most MaxCPULimits bytes of it.
	JSON string `json:"-"`
}

// MaxCPULimits is the size limit of cpu.limits, in bytes. A longer value is cut, and invalid.
const MaxCPULimits = 1 << 10

// The words for cpu.limits.
const (
	CPULimitsKeep   = "Keep"
	CPULimitsRemove = "Remove"
)

// MaxBoost is the greatest multiplier of a StartupBoost. If a pod has more CPU than that, attune did not boost it.
const MaxBoost = 100

// StartupBoost multiplies the CPU of a pod while it starts.
type StartupBoost struct {
	// Multiplier of the CPU request, from 1 to 100, e.g. "2". "1" switches off a boost that a lower layer sets.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) >= 1.0 && double(self) <= 100.0",message="startupBoost.multiplier must be a decimal number from 1 to 100 as a string, e.g. '2'"
	Multiplier Decimal `json:"multiplier"`
	// Duration is how long the boost lasts at least, from 1s to 1h, e.g. 2m. It ends when this time is over and the
	// pod is ready.
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="startupBoost.duration must be a duration between 1s and 1h, e.g. 2m"
	Duration Duration `json:"duration"`
}

// MemorySettings are the settings for memory.
// +kubebuilder:validation:XValidation:rule="!has(self.hpa) || self.hpa != 'Retarget'",message="memory.hpa Retarget is not one of Block or Keep: only cpu.hpa may be Retarget, e.g. memory.hpa: Keep",fieldPath=".hpa"
type MemorySettings struct {
	ResourceSettings `json:",inline"`

	// AllowDecrease allows attune to lower memory. Built-in default: false.
	// +optional
	AllowDecrease *bool `json:"allowDecrease,omitempty"`

	// RaiseBeforeKill sets whether attune raises the memory of a running container whose usage climbs towards its
	// limit, before the kernel kills it. Auto: in the modes Canary and Auto. Off: never. Built-in default: Auto.
	// +optional
	RaiseBeforeKill *RaiseBeforeKill `json:"raiseBeforeKill,omitempty"`
}

// RaiseBeforeKill sets whether attune raises memory before an OOM kill.
// +kubebuilder:validation:Enum=Auto;Off
type RaiseBeforeKill string

const (
	RaiseAuto RaiseBeforeKill = "Auto"
	RaiseOff  RaiseBeforeKill = "Off"
)

// UpdateType is the mode of a policy: how attune applies recommendations.
// +kubebuilder:validation:Enum=Observe;Recommend;Initial;OneShot;Canary;Auto
type UpdateType string

const (
	UpdateObserve   UpdateType = "Observe"
	UpdateRecommend UpdateType = "Recommend"
	UpdateInitial   UpdateType = "Initial"
	UpdateOneShot   UpdateType = "OneShot"
	UpdateCanary    UpdateType = "Canary"
	UpdateAuto      UpdateType = "Auto"
)

// ResizeMethod sets what attune may do if a node rejects a resize in place.
// +kubebuilder:validation:Enum=InPlaceOnly;InPlaceOrRecreate
type ResizeMethod string

const (
	ResizeInPlaceOnly       ResizeMethod = "InPlaceOnly"
	ResizeInPlaceOrRecreate ResizeMethod = "InPlaceOrRecreate"
)

// UpdateStrategy sets how attune applies recommendations, when and how fast.
type UpdateStrategy struct {
	// Type is the mode. Observe: changes nothing, shows how much usage data exists. Recommend: changes nothing, shows
	// recommendations. Initial: sets the resources of new pods, never changes a running pod. OneShot: resizes running
	// pods, one of a workload at a time, and does not change new pods. Canary: sets the resources of new pods, and resizes
	// running pods in waves: first canary.percentage of them, then maxConcurrentResizes each. After the first wave it
	// continues if canary.autoPromote is true, otherwise it waits for kubectl attune promote. Auto: as Canary, but always
	// continues. In each mode that resizes running pods, attune observes each resize and reverts one that causes a
	// regression. New pods are only sized in namespaces that the chart's value webhook.namespaces allows, and only if
	// admission is Enabled. Built-in default: Recommend.
	// +optional
	Type *UpdateType `json:"type,omitempty"`

	// ResizeMethod sets what happens if a node rejects a resize. InPlaceOnly: the pod keeps its resources.
	// InPlaceOrRecreate: attune evicts the pod through the Eviction API, within its PodDisruptionBudgets and never
	// the last ready replica. Built-in default: InPlaceOnly.
	// +optional
	ResizeMethod *ResizeMethod `json:"resizeMethod,omitempty"`

	// Cooldown is the time between two resize steps of a workload, from 1m to 720h. The waves of one step follow each
	// other without it, each after an observation period without a regression. Raises of containers that use more than
	// they request do not wait for it. Reverts lengthen it. Example: 30m. Built-in default: 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1m') && duration(self) <= duration('720h')",message="cooldown must be a duration between 1m and 720h, e.g. 1h"
	Cooldown *Duration `json:"cooldown,omitempty"`

	// SafetyObservationPeriod is how long attune observes a pod after a verified resize, from 1m to 24h, e.g. 10m, in
	// each mode that resizes running pods. It lasts at least metricsSource.rateWindow if a CPU limit is lowered. Default:
	// canary.observationPeriod; built-in default: 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="safetyObservationPeriod must be a duration between 1m and 24h, e.g. 5m"
	SafetyObservationPeriod *Duration `json:"safetyObservationPeriod,omitempty"`

	// AutoRevert restores the previous resources of a pod if a resize causes a regression. With false, attune reports
	// the regression and learns from it, but does not change the pod. Built-in default: true.
	// +optional
	AutoRevert *bool `json:"autoRevert,omitempty"`

	// Canary holds the settings of the first wave, and the observation period of all waves.
	// +optional
	Canary *CanarySettings `json:"canary,omitempty"`

	// Schedule limits the times at which new resizes start. It never delays reverts or responses to OOM kills.
	// Default: at any time.
	// +optional
	Schedule *Schedule `json:"schedule,omitempty"`

	// MaxConcurrentResizes is how many pods of a workload may be resized or observed at once, as a number or a
	// percentage, e.g. 5 or "25%". At least one pod is always allowed. It applies in the modes Canary (after the first
	// wave) and Auto. Built-in default: "10%".
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="maxConcurrentResizes must be a number of at least 1 or a percentage from 1% to 100%, e.g. 10%"
	MaxConcurrentResizes *intstr.IntOrString `json:"maxConcurrentResizes,omitempty"`
}

// CanarySettings are the settings of the first wave.
type CanarySettings struct {
	// Percentage of the pods in the first wave, from 1 to 100, e.g. 25; at least one pod. It applies in the modes Canary
	// and Auto. Built-in default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percentage *int32 `json:"percentage,omitempty"`

	// ObservationPeriod is how long attune observes a pod after a verified resize, from 1m to 24h, e.g. 30m. It applies
	// to every wave, not only to the first, and in each mode that resizes running pods, not only in Canary.
	// safetyObservationPeriod is the same period and takes precedence. Built-in default: 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="canary.observationPeriod must be a duration between 1m and 24h, e.g. 30m"
	ObservationPeriod *Duration `json:"observationPeriod,omitempty"`

	// AutoPromote continues with the other pods after the first wave had no regression. With false, attune lowers neither
	// the other pods nor new pods until you run kubectl attune promote or set it to true. It applies in the mode Canary
	// only: Auto always continues, and false together with Auto in one object is rejected. Built-in default: true.
	// +optional
	AutoPromote *bool `json:"autoPromote,omitempty"`
}

// Schedule limits the times at which new resizes start.
type Schedule struct {
	// Windows are the times of the day at which resizes may start, e.g. [{start: "22:00", end: "06:00"}]. Default: the
	// whole day.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=24
	Windows []ScheduleWindow `json:"windows,omitempty"`

	// DaysOfWeek on which windows start, e.g. [Saturday, Sunday]. Default: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	DaysOfWeek []Weekday `json:"daysOfWeek,omitempty"`

	// Timezone is an IANA name, e.g. Europe/Berlin. An unknown name is rejected. Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Timezone string `json:"timezone,omitempty"`
}

// ScheduleWindow is a span of the day. If its end is before its start, it runs past midnight.
// +kubebuilder:validation:XValidation:rule="self.start != self.end",message="schedule.windows start and end must differ, e.g. 22:00 and 06:00; leave windows out for the whole day"
type ScheduleWindow struct {
	// Start is the time of day from which resizes may start, e.g. 22:00.
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="schedule.windows start must be a time of day as HH:MM, e.g. 22:00"
	Start ClockTime `json:"start"`
	// End is the time of day from which no more resizes start, e.g. 06:00.
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="schedule.windows end must be a time of day as HH:MM, e.g. 06:00"
	End ClockTime `json:"end"`
}

// ClockTime is a time of day as HH:MM.
// +kubebuilder:validation:MaxLength=5
type ClockTime string

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// Switch is Enabled or Disabled.
// +kubebuilder:validation:Enum=Enabled;Disabled
type Switch string

const (
	Enabled  Switch = "Enabled"
	Disabled Switch = "Disabled"
)

// EvictionRanking is the order of evictions by the strategy Node: pods with Low are evicted first, pods with Never
// are not evicted.
// +kubebuilder:validation:Enum=Low;Medium;High;Never
type EvictionRanking string

const (
	RankingLow    EvictionRanking = "Low"
	RankingMedium EvictionRanking = "Medium"
	RankingHigh   EvictionRanking = "High"
	RankingNever  EvictionRanking = "Never"
)

// NodeSettings are the settings of the strategy Node.
type NodeSettings struct {
	// Eviction sets whether the strategy Node evicts pods that do not fit on their node. Enabled: through the Eviction
	// API, within their PodDisruptionBudgets. Disabled: never. Built-in default: Disabled.
	// +optional
	Eviction *Switch `json:"eviction,omitempty"`

	// EvictionRanking of the policy's pods: pods with Low are evicted first, then Medium, then High. Pods with Never are
	// not evicted. A ranking in the AttuneDefaults is also the highest that policies may set. Default: Medium for StatefulSets,
	// kinds of scaledKinds and single replicas, otherwise Low.
	// +optional
	EvictionRanking *EvictionRanking `json:"evictionRanking,omitempty"`

	// Group names pods of the namespace that spike together, across workloads, such as a proxy and its backend, e.g.
	// checkout. Default: the pods of one workload.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Group *string `json:"group,omitempty"`
}

// Risk is the only setting of the strategy Adaptive: how much shortage is accepted to reserve less.
// +kubebuilder:validation:Enum=Low;Medium;High
type Risk string

const (
	RiskLow    Risk = "Low"
	RiskMedium Risk = "Medium"
	RiskHigh   Risk = "High"
)

// AdaptiveSettings are the settings of the strategy Adaptive.
type AdaptiveSettings struct {
	// Risk of shortage that is accepted to reserve less. Low reserves the most, then Medium; High reserves the least.
	// Built-in default: Medium.
	// +optional
	Risk *Risk `json:"risk,omitempty"`
}

// SLOGuardrail is a PromQL condition that must hold while attune observes a resize.
type SLOGuardrail struct {
	// Name of the guardrail, e.g. errors. The message of a reverted resize has it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Query is PromQL with one number as the result, e.g. sum(rate(http_requests_total{code=~"5.."}[5m])). Do not compare
	// in the query: a comparison has no result when it does not hold. If the query still fails at the end of the
	// observation, attune observes once more, then accepts the resize but does not continue to the other pods. On a server that its namespace does not name itself, a query of an AttunePolicy or
	// AttuneNamespaceDefaults reads only series with the namespace as their label namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`
	// Threshold that the result is compared with, e.g. "99.9".
	// +kubebuilder:validation:XValidation:rule="self.matches('^-?[0-9]+([.][0-9]+)?$')",message="threshold must be a decimal number as a string, e.g. '99.9'"
	Threshold SignedDecimal `json:"threshold"`
	// Comparison that must hold, in the order result, comparison, threshold. With <, for example, the result must be less
	// than the threshold. One of <, <=, > and >=.
	Comparison Comparison `json:"comparison"`
}

// SignedDecimal is a decimal number, e.g. "-0.5" or "99.9".
// +kubebuilder:validation:MaxLength=32
type SignedDecimal string

// Comparison of a result with a threshold.
// +kubebuilder:validation:Enum="<";"<=";">";">="
type Comparison string

// CostPricing sets the prices that turn savings into money.
type CostPricing struct {
	// CPUPerCoreHour is the price of one core for one hour, e.g. "0.031". Default: not set, no price.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) <= 1000000.0",message="costPricing.cpuPerCoreHour must be a decimal number from 0 to 1000000 as a string, e.g. '0.031'"
	CPUPerCoreHour *Decimal `json:"cpuPerCoreHour,omitempty"`
	// MemoryPerGiBHour is the price of one GiB for one hour, e.g. "0.004". Default: not set, no price.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) <= 1000000.0",message="costPricing.memoryPerGiBHour must be a decimal number from 0 to 1000000 as a string, e.g. '0.004'"
	MemoryPerGiBHour *Decimal `json:"memoryPerGiBHour,omitempty"`
	// Currency is an ISO 4217 code or a sign, e.g. EUR. Default: $.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Currency string `json:"currency,omitempty"`
}
