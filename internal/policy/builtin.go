package policy

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// The built-in values of fields that no layer sets. They are nowhere else: the CRDs have no defaults, because a
// default that the API server writes into an object could not be told from a value that its author chose, and
// would override the layers below.
const (
	historyWindow     = 168 * time.Hour
	adaptiveWindow    = 336 * time.Hour
	minimumDataPoints = 48
	queryStep         = 5 * time.Minute
	minRateWindow     = 30 * time.Second
	cooldown          = time.Hour
	observation       = 5 * time.Minute
	autoRevert        = true
	canaryPercent     = 10
	autoPromote       = true
	weight            = 100
	currency          = "$"

	updateType       = v1alpha1.UpdateRecommend
	resizeMethod     = v1alpha1.ResizeInPlaceOnly
	strategy         = v1alpha1.StrategyWorkload
	risk             = v1alpha1.RiskMedium
	eviction         = v1alpha1.Disabled
	controlledValues = v1alpha1.ControlledRequestsAndLimits
	burstSensitivity = v1alpha1.Decimal("0.1")
	raiseBeforeKill  = v1alpha1.RaiseAuto
)

// maxConcurrentResizes is a part of the workload's pods.
var maxConcurrentResizes = intstr.FromString("10%")

// estimator holds the built-in values that differ between CPU and memory, and example amounts for messages.
type estimator struct {
	// path of the section in the spec.
	path             string
	percentile       int32
	overhead         v1alpha1.Percent
	maxChangePercent int32
	// minimum and maximum appear only in messages, as examples of minAllowed and maxAllowed.
	minimum, maximum string
}

// estimators are indexed by Resource. Memory has the higher percentile and overhead and the smaller step: too
// little memory kills a container, too little CPU slows it down.
var estimators = [2]estimator{
	recommender.CPU:    {path: "cpu", percentile: 95, overhead: "20", maxChangePercent: 50, minimum: "50m", maximum: "4"},
	recommender.Memory: {path: "memory", percentile: 99, overhead: "30", maxChangePercent: 30, minimum: "64Mi", maximum: "8Gi"},
}
