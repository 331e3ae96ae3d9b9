package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PolicySettings are the fields that a policy and the two Defaults kinds share. Every field is
// optional; a field left out is taken from the next lower layer (policy, namespace, cluster, built-in).
// Lists and maps replace those of a lower layer.
type PolicySettings struct {
	// MetricsSource says where usage history comes from. Default: the operator's own source.
	// +optional
	MetricsSource *MetricsSource `json:"metricsSource,omitempty"`

	// CPU settings.
	// +optional
	CPU *CPUSettings `json:"cpu,omitempty"`

	// Memory settings.
	// +optional
	Memory *MemorySettings `json:"memory,omitempty"`

	// UpdateStrategy says what is done with a recommendation, when and how fast.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`

	// Strategy says how a size is computed. Workload: one size for every replica (built-in default).
	// Node: per pod, base demand plus a share of the node's spike headroom. Adaptive: calibrated per
	// container from its own past.
	// +optional
	Strategy *Strategy `json:"strategy,omitempty"`

	// Node holds the settings of the Node strategy.
	// +optional
	Node *NodeSettings `json:"node,omitempty"`

	// Adaptive holds the settings of the Adaptive strategy.
	// +optional
	Adaptive *AdaptiveSettings `json:"adaptive,omitempty"`

	// ExcludedContainers are neither recommended nor changed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ExcludedContainers []ContainerName `json:"excludedContainers,omitempty"`

	// SLOGuardrails are PromQL conditions that must hold while a resize is watched.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	SLOGuardrails []SLOGuardrail `json:"sloGuardrails,omitempty"`

	// Paused: no seed and no new resize; watching and reverts go on. Pods keep their present resources. An OOM kill
	// or a crash loop below the original resources restores them, unless autoRevert is false; kubectl attune undo -A
	// restores all pods now. It is OR-ed over all levels: paused on the AttuneDefaults is the kill switch.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// ContainerName is the name of a container in a pod.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type ContainerName string

// Strategy says how a size is computed.
// +kubebuilder:validation:Enum=Workload;Node;Adaptive
type Strategy string

const (
	StrategyWorkload Strategy = "Workload"
	StrategyNode     Strategy = "Node"
	StrategyAdaptive Strategy = "Adaptive"
)

// MetricsSource says where usage history comes from.
// +kubebuilder:validation:XValidation:rule="!has(self.historyWindow) || !has(self.queryStep) || duration(self.historyWindow).getSeconds() / duration(self.queryStep).getSeconds() <= 131072",message="historyWindow must hold at most 131072 steps of queryStep, e.g. 720h of 20s; the operator's values allow fewer (usage.limits.steps)"
type MetricsSource struct {
	// Prometheus is a server that speaks the Prometheus HTTP API: Prometheus, Thanos, Mimir, VictoriaMetrics.
	// +optional
	Prometheus *PrometheusSource `json:"prometheus,omitempty"`

	// Labels that every series has that the server is asked for, such as cluster where it knows several clusters, or job.
	// Guardrails' queries are asked as they are. The operator's own series have no such labels.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 64 && name.matches('^[a-zA-Z_][a-zA-Z0-9_]*$') && !(name in ['__name__', 'namespace', 'pod', 'container']) && self[name].size() >= 1)",message="labels must be names of labels other than namespace, pod and container, each with the value that every series has, e.g. {cluster: eu-1}"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// HistoryWindow is how far back usage is looked at, from 1h to 720h. Built-in default: 168h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1h') && duration(self) <= duration('720h')",message="historyWindow must be a duration between 1h and 720h, e.g. 168h"
	HistoryWindow *Duration `json:"historyWindow,omitempty"`

	// MinimumDataPoints is the number of steps with data below which nothing is recommended. Built-in default: 48.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinimumDataPoints *int32 `json:"minimumDataPoints,omitempty"`

	// QueryStep is the resolution of history, from 10s to 1h. Built-in default: 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('10s') && duration(self) <= duration('1h')",message="queryStep must be a duration between 10s and 1h, e.g. 5m"
	QueryStep *Duration `json:"queryStep,omitempty"`

	// RateWindow is the window of rate() over CPU counters, at least 30s and at most historyWindow.
	// Built-in default: the greater of queryStep and 30s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('30s') && duration(self) <= duration('720h')",message="rateWindow must be a duration of at least 30s and at most historyWindow, e.g. 5m"
	RateWindow *Duration `json:"rateWindow,omitempty"`
}

// LabelValue is the value of a label of a series.
// +kubebuilder:validation:MaxLength=128
type LabelValue string

// Duration is a span of time such as 90s, 5m or 168h.
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
type Duration struct {
	metav1.Duration `json:",inline"`
}

// PrometheusSource addresses a server that speaks the Prometheus HTTP API. Only namespaces that the
// operator's values allow (usage.policySources.namespaces) may name one. A level that names an address
// replaces all that lower levels say of the server, because credentials belong to the server that they
// were given for.
// +kubebuilder:validation:XValidation:rule="!(has(self.bearerTokenSecret) && has(self.basicAuth))",message="prometheus takes at most one of bearerTokenSecret and basicAuth"
type PrometheusSource struct {
	// Address is the server's base URL, such as http://prometheus.monitoring:9090.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''",message="prometheus.address must be a URL that begins with http:// or https://, e.g. http://prometheus.monitoring:9090"
	Address string `json:"address,omitempty"`

	// Headers are sent with every request, such as X-Scope-OrgID.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Headers map[string]string `json:"headers,omitempty"`

	// QueryParameters are added to every request, such as dedup.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	QueryParameters map[string]string `json:"queryParameters,omitempty"`

	// BearerTokenSecret is a key of a Secret in the namespace of the object that names it; for an
	// AttuneDefaults that is the operator's own. Not with basicAuth.
	// +optional
	BearerTokenSecret *SecretKey `json:"bearerTokenSecret,omitempty"`

	// BasicAuth takes a user name and a password. Not with bearerTokenSecret.
	// +optional
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`

	// TLS settings of the connection.
	// +optional
	TLS *SourceTLS `json:"tls,omitempty"`
}

// SecretKey names one key of a Secret.
type SecretKey struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in its data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// BasicAuth is a user name with a password from a Secret.
type BasicAuth struct {
	// Username to log in with.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Username string `json:"username"`
	// PasswordSecret holds the password.
	PasswordSecret SecretKey `json:"passwordSecret"`
}

// SourceTLS holds the TLS settings of a usage source.
type SourceTLS struct {
	// CASecret holds the certificates that the server's own is verified with.
	// +optional
	CASecret *SecretKey `json:"caSecret,omitempty"`
	// ServerName overrides the name that the server's certificate is verified for.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
	// InsecureSkipVerify accepts any certificate.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// ResourceSettings are the estimator's settings of one resource.
type ResourceSettings struct {
	// Percentile of usage that is covered: 50, 90, 95 or 99. Built-in default: 95 for CPU, 99 for memory.
	// +optional
	// +kubebuilder:validation:Enum=50;90;95;99
	Percentile *int32 `json:"percentile,omitempty"`

	// Overhead is the headroom above the percentile in percent, such as "20". Built-in default: 20 for CPU, 30 for memory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) <= 1000.0",message="overhead must be a percentage from 0 to 1000 as a string without the sign, e.g. '20'"
	Overhead *Percent `json:"overhead,omitempty"`

	// MinAllowed is the least request, such as 50m or 64Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).size() <= 64 && !string(self).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="minAllowed must be a quantity greater than 0, e.g. 50m or 64Mi"
	MinAllowed *resource.Quantity `json:"minAllowed,omitempty"`

	// MaxAllowed is the greatest request, such as 4 or 8Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).size() <= 64 && !string(self).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="maxAllowed must be a quantity greater than 0, e.g. 4 or 8Gi"
	MaxAllowed *resource.Quantity `json:"maxAllowed,omitempty"`

	// ControlledValues: RequestsAndLimits (built-in default) keeps the limit-to-request ratio of the
	// container's original resources; RequestsOnly leaves limits alone.
	// +optional
	ControlledValues *ControlledValues `json:"controlledValues,omitempty"`

	// MaxChangePercent caps one step, in percent of what the pod has. Built-in default: 50 for CPU, 30 for memory.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxChangePercent *int32 `json:"maxChangePercent,omitempty"`

	// BurstSensitivity weighs bursts (a peak above three times the 95th percentile); "0" switches the
	// burst step off. Built-in default: "0.1".
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) <= 10.0",message="burstSensitivity must be a decimal number from 0 to 10 as a string, e.g. '0.1'"
	BurstSensitivity *Decimal `json:"burstSensitivity,omitempty"`
}

// Percent is a number of percent without the sign, such as "20".
// +kubebuilder:validation:MaxLength=16
type Percent string

// Decimal is a non-negative decimal number, such as "0.1".
// +kubebuilder:validation:MaxLength=16
type Decimal string

// ControlledValues says whether limits follow requests.
// +kubebuilder:validation:Enum=RequestsOnly;RequestsAndLimits
type ControlledValues string

const (
	ControlledRequestsOnly      ControlledValues = "RequestsOnly"
	ControlledRequestsAndLimits ControlledValues = "RequestsAndLimits"
)

// CPUSettings are the estimator's settings for CPU.
// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || string(self.minAllowed).size() > 64 || string(self.maxAllowed).size() > 64 || string(self.minAllowed).matches('[eE][-+]?[0-9]{3}') || string(self.maxAllowed).matches('[eE][-+]?[0-9]{3}') || !isQuantity(string(self.minAllowed)) || !isQuantity(string(self.maxAllowed)) || quantity(string(self.minAllowed)).compareTo(quantity(string(self.maxAllowed))) <= 0",message="cpu.minAllowed must be less than or equal to cpu.maxAllowed"
type CPUSettings struct {
	ResourceSettings `json:",inline"`

	// StartupBoost gives a pod more CPU at admission and takes it back in place.
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`
}

// MaxBoost is the greatest multiplier of a StartupBoost. A pod that has more CPU than that was not boosted by attune.
const MaxBoost = 100

// StartupBoost multiplies the CPU of a starting pod.
type StartupBoost struct {
	// Multiplier of the CPU request, such as "2".
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) >= 1.0 && double(self) <= 100.0",message="startupBoost.multiplier must be a decimal number from 1 to 100 as a string, e.g. '2'"
	Multiplier Decimal `json:"multiplier"`
	// Duration after which the boost is taken back, or at readiness, whichever is later.
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="startupBoost.duration must be a duration between 1s and 1h, e.g. 2m"
	Duration Duration `json:"duration"`
}

// MemorySettings are the estimator's settings for memory.
// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || string(self.minAllowed).size() > 64 || string(self.maxAllowed).size() > 64 || string(self.minAllowed).matches('[eE][-+]?[0-9]{3}') || string(self.maxAllowed).matches('[eE][-+]?[0-9]{3}') || !isQuantity(string(self.minAllowed)) || !isQuantity(string(self.maxAllowed)) || quantity(string(self.minAllowed)).compareTo(quantity(string(self.maxAllowed))) <= 0",message="memory.minAllowed must be less than or equal to memory.maxAllowed"
type MemorySettings struct {
	ResourceSettings `json:",inline"`

	// AllowDecrease lets memory be lowered. Built-in default: false.
	// +optional
	AllowDecrease *bool `json:"allowDecrease,omitempty"`

	// RaiseBeforeKill raises a container in place that climbs towards its memory limit, before the kernel
	// kills it. Auto: in the modes Canary and Auto; Off: never. Built-in default: Auto.
	// +optional
	RaiseBeforeKill *RaiseBeforeKill `json:"raiseBeforeKill,omitempty"`
}

// RaiseBeforeKill says whether memory is raised before an OOM kill.
// +kubebuilder:validation:Enum=Auto;Off
type RaiseBeforeKill string

const (
	RaiseAuto RaiseBeforeKill = "Auto"
	RaiseOff  RaiseBeforeKill = "Off"
)

// UpdateType is a policy's mode.
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

// ResizeMethod says what may be done where a node refuses a resize in place.
// +kubebuilder:validation:Enum=InPlaceOnly;InPlaceOrRecreate
type ResizeMethod string

const (
	ResizeInPlaceOnly       ResizeMethod = "InPlaceOnly"
	ResizeInPlaceOrRecreate ResizeMethod = "InPlaceOrRecreate"
)

// UpdateStrategy says what is done with a recommendation, when and how fast.
type UpdateStrategy struct {
	// Type is the mode. Built-in default: Recommend.
	// +optional
	Type *UpdateType `json:"type,omitempty"`

	// ResizeMethod: InPlaceOnly (built-in default), or InPlaceOrRecreate, which evicts (Eviction API,
	// PodDisruptionBudgets honoured, never the last ready replica) where a node refuses.
	// +optional
	ResizeMethod *ResizeMethod `json:"resizeMethod,omitempty"`

	// Cooldown is the time between the end of a wave's watch and the next wave, at least 1m. Built-in default: 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1m') && duration(self) <= duration('720h')",message="cooldown must be a duration between 1m and 720h, e.g. 1h"
	Cooldown *Duration `json:"cooldown,omitempty"`

	// SafetyObservationPeriod is how long a verified resize is watched, at least 1m. Built-in default:
	// canary.observationPeriod, else 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="safetyObservationPeriod must be a duration between 1m and 24h, e.g. 5m"
	SafetyObservationPeriod *Duration `json:"safetyObservationPeriod,omitempty"`

	// AutoRevert puts a pod back when a resize harms it. Built-in default: true. With false, harm is
	// reported and learned from, and nothing is written.
	// +optional
	AutoRevert *bool `json:"autoRevert,omitempty"`

	// Canary holds the settings of the first wave.
	// +optional
	Canary *CanarySettings `json:"canary,omitempty"`

	// Schedule holds the windows in which new resizes start. Reverts and answers to OOM kills are never held by it.
	// +optional
	Schedule *Schedule `json:"schedule,omitempty"`

	// MaxConcurrentResizes is the number or percentage of a workload's pods that are resized or watched
	// at once, at least one pod. Built-in default: "10%".
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="maxConcurrentResizes must be a number of at least 1 or a percentage from 1% to 100%, e.g. 10%"
	MaxConcurrentResizes *intstr.IntOrString `json:"maxConcurrentResizes,omitempty"`
}

// CanarySettings are those of the first wave.
type CanarySettings struct {
	// Percentage of the pods in the first wave, at least one pod. Built-in default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percentage *int32 `json:"percentage,omitempty"`

	// ObservationPeriod of the first wave, at least 1m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]{1,3})?(m|s|ms)|[0-9]{1,5}([.][0-9]{1,3})?h)+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="canary.observationPeriod must be a duration between 1m and 24h, e.g. 30m"
	ObservationPeriod *Duration `json:"observationPeriod,omitempty"`

	// AutoPromote goes on to the rest after a clean observation. Built-in default: true.
	// +optional
	AutoPromote *bool `json:"autoPromote,omitempty"`
}

// Schedule holds the windows in which new resizes start.
type Schedule struct {
	// Windows of the day.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=24
	Windows []ScheduleWindow `json:"windows,omitempty"`

	// DaysOfWeek on which the windows open. Default: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	DaysOfWeek []Weekday `json:"daysOfWeek,omitempty"`

	// Timezone is an IANA name, such as Europe/Berlin. Default: UTC. An unknown one is rejected.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Timezone string `json:"timezone,omitempty"`
}

// ScheduleWindow is a span of the day; one whose end is before its start runs over midnight.
// +kubebuilder:validation:XValidation:rule="self.start != self.end",message="schedule.windows start and end must differ, e.g. 22:00 and 06:00; leave windows out for the whole day"
type ScheduleWindow struct {
	// Start is when resizes may begin.
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="schedule.windows start must be a time of day as HH:MM, e.g. 22:00"
	Start ClockTime `json:"start"`
	// End is when no more resizes begin.
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

// EvictionRanking orders evictions of the Node strategy: Low goes first, Never never.
// +kubebuilder:validation:Enum=Low;Medium;High;Never
type EvictionRanking string

const (
	RankingLow    EvictionRanking = "Low"
	RankingMedium EvictionRanking = "Medium"
	RankingHigh   EvictionRanking = "High"
	RankingNever  EvictionRanking = "Never"
)

// NodeSettings are those of the Node strategy.
type NodeSettings struct {
	// Eviction: the Node strategy evicts only where Enabled. Built-in default: Disabled.
	// +optional
	Eviction *Switch `json:"eviction,omitempty"`

	// EvictionRanking of the policy's pods. Default: Medium for StatefulSets and single replicas, else Low.
	// +optional
	EvictionRanking *EvictionRanking `json:"evictionRanking,omitempty"`

	// Group names pods of the namespace that spike together, across workloads: a proxy and what is behind it. Default:
	// the pods of one workload.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Group *string `json:"group,omitempty"`
}

// Risk is the one knob of the Adaptive strategy: how much shortage is accepted to reserve less.
// +kubebuilder:validation:Enum=Low;Medium;High
type Risk string

const (
	RiskLow    Risk = "Low"
	RiskMedium Risk = "Medium"
	RiskHigh   Risk = "High"
)

// AdaptiveSettings are those of the Adaptive strategy.
type AdaptiveSettings struct {
	// Risk that is accepted. Built-in default: Medium.
	// +optional
	Risk *Risk `json:"risk,omitempty"`
}

// SLOGuardrail is a PromQL condition that must hold while a resize is watched.
type SLOGuardrail struct {
	// Name that a refusal or revert gives as its reason.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Query is PromQL that answers one number. Only its brackets and quotes are checked beforehand; what
	// else is wrong with it shows when it is asked, and then the resize is kept without promotion.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`
	// Threshold that the answer is compared with.
	// +kubebuilder:validation:XValidation:rule="self.matches('^-?[0-9]+([.][0-9]+)?$')",message="threshold must be a decimal number as a string, e.g. '99.9'"
	Threshold SignedDecimal `json:"threshold"`
	// Comparison that must hold between the answer and the threshold.
	Comparison Comparison `json:"comparison"`
}

// SignedDecimal is a decimal number, such as "-0.5" or "99.9".
// +kubebuilder:validation:MaxLength=32
type SignedDecimal string

// Comparison of an answer with a threshold.
// +kubebuilder:validation:Enum="<";"<=";">";">="
type Comparison string

// CostPricing prices savings.
type CostPricing struct {
	// CPUPerCoreHour is the price of one core for one hour.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) <= 1000000.0",message="costPricing.cpuPerCoreHour must be a decimal number from 0 to 1000000 as a string, e.g. '0.031'"
	CPUPerCoreHour *Decimal `json:"cpuPerCoreHour,omitempty"`
	// MemoryPerGiBHour is the price of one GiB for one hour.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?$') && double(self) <= 1000000.0",message="costPricing.memoryPerGiBHour must be a decimal number from 0 to 1000000 as a string, e.g. '0.004'"
	MemoryPerGiBHour *Decimal `json:"memoryPerGiBHour,omitempty"`
	// Currency is an ISO 4217 code or a sign.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Currency string `json:"currency,omitempty"`
}
